package colocation

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
)

// askQuotas returns a function that requests /debug/quotas, with one pod just admitted, apps/evaluate-quota-room.
func askQuotas(t *testing.T) func(target, accept string) *httptest.ResponseRecorder {
	t.Helper()
	suites := suite.List{Suite()}
	w := harness.OpenInstance(t, suites, harness.DemoGates(t, suites), harness.ParsePolicy(t, suites, suites.Schema().DefaultYAML()))
	harness.Post(harness.DefaultServer().Serve(w.Routes()), "validate-pod/evaluate-quota-room", harness.ReadSample(t, "validate-pod/evaluate-quota-room"))
	return func(target, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", target, nil)
		r.Header.Set("Accept", accept)
		answer := httptest.NewRecorder()
		w.Running[Name].Debug["/debug/quotas"].ServeHTTP(answer, r)
		return answer
	}
}

// TestDebugQuotas: the tree as text, or as JSON on request, including what was just reserved.
func TestDebugQuotas(t *testing.T) {
	ask := askQuotas(t)
	text := ask("/debug/quotas", "*/*").Body.String()
	for _, line := range []string{
		"departments (namespace quotas, parent)\n    cpu: used 8, reserved 0, limit 10 (spec.max)\n",
		"\n  team-b (namespace quotas)\n      cpu: used 3, reserved 0, limit 4 (spec.max)\n",
		"    cpu: used 0, reserved 100m, limit 10 (spec.max)\n", "    reserved for 1 pod\n",
		"no limit\n", "limit 0 (annotation quota.scheduling.koordinator.sh/admission)\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the text lacks %q:\n%s", line, text)
		}
	}
	for _, asked := range [][2]string{{"/debug/quotas?o=json", "*/*"}, {"/debug/quotas", "application/json"}} {
		var rows []ledger.Row
		answer := ask(asked[0], asked[1]).Body.Bytes()
		if err := json.Unmarshal(answer, &rows); err != nil || len(rows) < 5 || !strings.Contains(string(answer), `"waitingPods": 1`) {
			t.Errorf("%v: %d rows, %v", asked, len(rows), err)
		}
	}
}

// TestDebugQuotasNames: names of pods are served on request only.
func TestDebugQuotasNames(t *testing.T) {
	ask := askQuotas(t)
	for query, names := range map[string]bool{"": false, "?o=json": false, "?pods=false": false, "?pods=true": true, "?pods=true&o=json": true} {
		text := ask("/debug/quotas"+query, "*/*").Body.String()
		if strings.Contains(text, "evaluate-quota-room") != names {
			t.Errorf("%s: want names: %v\n%s", query, names, text)
		}
	}
}
