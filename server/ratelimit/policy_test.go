package ratelimit

import (
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// TestLimits: what is wrong with a limit, with its path.
func TestLimits(t *testing.T) {
	schema := config.Schema{Section([]string{"/mutate-pods", "/validate-pods"})}
	for _, test := range []struct{ name, limits, want string }{
		{"good", "{name: a, by: user, perSecond: 0.5, burst: 1}", ""},
		{"every field", "{name: a, by: route, perSecond: 5, burst: 1, routes: [/mutate-pods], mode: log, exemptUsers: [a], exemptGroups: [b], exemptNamespaces: [c]}", ""},
		{"empty", "{}", "limits[0].name: Invalid value: \"\": must be up to 63"},
		{"no bucket", "{name: a, perSecond: 1, burst: 1}", "limits[0].by: Unsupported value"},
		{"a name for no label", "{name: A b, by: user, perSecond: 1, burst: 1}", "limits[0].name: Invalid value"},
		{"rate 0", "{name: a, by: user, burst: 1}", "limits[0].perSecond: Invalid value: 0: must be at least 0.0003"},
		{"negative rate", "{name: a, by: user, perSecond: -1, burst: 1}", "limits[0].perSecond: Invalid value"},
		{"no number", "{name: a, by: user, perSecond: .nan, burst: 1}", "NaN"},
		{"burst 0", "{name: a, by: user, perSecond: 1}", "limits[0].burst: Invalid value: 0: must be at least 1"},
		{"mode", "{name: a, by: user, perSecond: 1, burst: 1, mode: warn}", `limits[0].mode: Unsupported value: "warn"`},
		{"a typo", "{name: a, by: user, perSecond: 1, burst: 1, routes: [/mutate-pod]}", `limits[0].routes[0]: Invalid value: "/mutate-pod": is not a route; did you mean /mutate-pods?`},
		{"far from any", "{name: a, by: user, perSecond: 1, burst: 1, routes: [x]}", "limits[0].routes[0]"},
		{"an empty user", `{name: a, by: user, perSecond: 1, burst: 1, exemptUsers: [""]}`, "limits[0].exemptUsers[0]: Required value: an exact name"},
		{"twice", "{name: a, by: user, perSecond: 1, burst: 1}, {name: a, by: route, perSecond: 1, burst: 1}", `limits[1].name: Duplicate value: "a"`},
		{"too many", strings.Repeat("{name: a, by: user, perSecond: 1, burst: 1}, ", 17), "limits: Too many: 17"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := config.Parse([]byte("limits: ["+test.limits+"]"), schema)
			if got := fmt.Sprint(problems); test.want == "" && len(problems) > 0 || !strings.Contains(got, test.want) {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// TestLimitWarnings: a limit by user that would stop the controller of ReplicaSets is warned about.
func TestLimitWarnings(t *testing.T) {
	for _, test := range []struct {
		more   string
		warned bool
	}{{"by: user", true}, {"by: user, exemptGroups: [g]", false}, {"by: user, exemptUsers: [u]", false}, {"by: namespace", false}, {"by: user, mode: log", false}} {
		warnings := configtest.Parse(t, "limits: [{name: a, perSecond: 1, burst: 1, "+test.more+"}]", Section(nil)).Warnings()
		if len(warnings) > 0 != test.warned || test.warned && !strings.Contains(warnings[0], "limits[0]: one user") {
			t.Errorf("%s: %q", test.more, warnings)
		}
	}
}
