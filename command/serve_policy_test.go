package command

import (
	"strings"
	"testing"

	"usher.dev/usher/config"
)

// TestUsablePolicy: a policy that depends on namespaces is refused where none can be known.
func TestUsablePolicy(t *testing.T) {
	policy, problems := config.Parse([]byte("requestsFromLimits: [{name: a, namespaceSelector: {matchLabels: {a: b}}, cpuRequestToLimitPercent: 50}]"), config.Schema{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, c := range []struct {
		name   string
		from   clusterFlags
		policy *config.Policy
		ok     bool
	}{
		{"an API server", clusterFlags{source: "api"}, policy, true},
		{"files", clusterFlags{source: "files", dir: "samples/cluster"}, policy, true},
		{"nothing", clusterFlags{source: "files"}, policy, false},
		{"nothing, and nothing needed", clusterFlags{source: "files"}, &config.Policy{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{serveOptions: serveOptions{clusterSource: c.from, config: "policy.yaml"}}
			err := s.usable(c.policy)
			if (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "requestsFromLimits[0].namespaceSelector: usher does not know any Namespace; serve with --cluster=api") {
				t.Errorf("got %v", err)
			}
		})
	}
}
