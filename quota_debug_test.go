package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"usher.dev/usher/quota/ledger"
)

// TestDebugQuotas: the tree as text for people, as JSON for who asks; with what was reserved a moment ago.
func TestDebugQuotas(t *testing.T) {
	w := defaultWorld(t)
	mux := defaultEdge().Serve(routes(w))
	post(mux, "validate-pod/evaluate-quota-room", readSample(t, "validate-pod/evaluate-quota-room"))
	get := func(target, accept string) string {
		r := httptest.NewRequest("GET", target, nil)
		r.Header.Set("Accept", accept)
		answer := httptest.NewRecorder()
		debugQuotas(w.state.quotas.ledger)(answer, r)
		return answer.Body.String()
	}
	text := get("/debug/quotas", "*/*")
	for _, line := range []string{
		"departments (namespace quotas, parent)\n    cpu: used 8, reserved 0, limit 10 (spec.max)\n",
		"\n  team-b (namespace quotas)\n      cpu: used 3, reserved 0, limit 4 (spec.max)\n",
		"    cpu: used 0, reserved 100m, limit 10 (spec.max)\n", "    reserved for apps/evaluate-quota-room since ",
		"no limit\n", "limit 0 (annotation quota.scheduling.koordinator.sh/admission)\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the text lacks %q:\n%s", line, text)
		}
	}
	for _, asked := range [][2]string{{"/debug/quotas?o=json", "*/*"}, {"/debug/quotas", "application/json"}} {
		var rows []ledger.Row
		if err := json.Unmarshal([]byte(get(asked[0], asked[1])), &rows); err != nil || len(rows) < 5 {
			t.Errorf("%v: %d rows, %v", asked, len(rows), err)
		}
	}
}
