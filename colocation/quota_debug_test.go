package colocation

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/suite"
	"usher.dev/usher/test/harness"
)

// elsewhere and loopback are addresses of clients.
const elsewhere, loopback = "192.0.2.1:1234", "127.0.0.1:1234"

// askQuotas returns a function that requests /debug/quotas, with one pod just admitted, apps/evaluate-quota-room.
func askQuotas(t *testing.T) func(target, from, accept string) *httptest.ResponseRecorder {
	t.Helper()
	wing := &Suite{}
	w := harness.OpenWorld(t, suite.List{wing.Value()}, harness.DemoGates(t, suite.List{wing.Value()}), harness.ParsePolicy(t, suite.List{wing.Value()}, []byte(wing.Value().DefaultPolicy)))
	harness.Post(harness.DefaultServer().Serve(w.Routes()), "validate-pod/evaluate-quota-room", harness.ReadSample(t, "validate-pod/evaluate-quota-room"))
	return func(target, from, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", target, nil)
		r.RemoteAddr = from
		r.Header.Set("Accept", accept)
		for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded"} { // any client may set these
			r.Header.Set(header, "127.0.0.1")
		}
		r.Host = "127.0.0.1"
		answer := httptest.NewRecorder()
		debugQuotas(wing.state.quotas.ledger)(answer, r)
		return answer
	}
}

// TestDebugQuotas: the tree as text, or as JSON on request, including what was just reserved.
func TestDebugQuotas(t *testing.T) {
	ask := askQuotas(t)
	text := ask("/debug/quotas", elsewhere, "*/*").Body.String()
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
		answer := ask(asked[0], elsewhere, asked[1]).Body.Bytes()
		if err := json.Unmarshal(answer, &rows); err != nil || len(rows) < 5 || !strings.Contains(string(answer), `"waitingPods": 1`) {
			t.Errorf("%v: %d rows, %v", asked, len(rows), err)
		}
	}
}

// TestDebugQuotasNames: names of pods are served to this machine only, and only on request.
func TestDebugQuotasNames(t *testing.T) {
	ask := askQuotas(t)
	for _, test := range []struct {
		from, query string
		code        int
		names       bool
	}{
		{elsewhere, "", 200, false},
		{elsewhere, "?o=json", 200, false},
		{elsewhere, "?pods=true", 403, false},
		{elsewhere, "?pods=true&o=json", 403, false},
		{"[2001:db8::1]:1234", "?pods=true", 403, false},
		{"127.0.0.6:1234", "?pods=true", 403, false}, // the address from which a service mesh's proxy forwards requests
		{"", "?pods=true", 403, false},
		{loopback, "", 200, false},
		{loopback, "?o=json", 200, false},
		{loopback, "?pods=false", 200, false},
		{loopback, "?pods=true", 200, true},
		{loopback, "?pods=true&o=json", 200, true},
		{"[::1]:1234", "?pods=true", 200, true},
		{"[::ffff:127.0.0.1]:1234", "?pods=true", 200, true},
	} {
		t.Run(test.from+test.query, func(t *testing.T) {
			answer := ask("/debug/quotas"+test.query, test.from, "*/*")
			text := answer.Body.String()
			if answer.Code != test.code || strings.Contains(text, "evaluate-quota-room") != test.names {
				t.Errorf("%d, want %d with names %v:\n%s", answer.Code, test.code, test.names, text)
			}
			if answer.Code == 403 && !strings.Contains(text, "kubectl -n usher port-forward deploy/usher 8081") {
				t.Errorf("the way out is missing: %s", text)
			}
		})
	}
}
