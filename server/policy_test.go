package server

import (
	"strings"
	"testing"

	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/configtest"
)

// TestUsablePolicy: a policy that depends on namespaces is refused where none can be known.
func TestUsablePolicy(t *testing.T) {
	policy := configtest.Parse(t, "some: [{namespaceSelector: {matchLabels: {a: b}}}]", config.Section[[]config.Selection]{Name: "some"})
	for _, c := range []struct {
		name   string
		from   suite.Source
		policy *config.Policy
		ok     bool
	}{
		{"an API server", suite.Source{From: "api"}, policy, true},
		{"files", suite.Source{Dir: "samples/cluster"}, policy, true},
		{"nothing", suite.Source{}, policy, false},
		{"nothing, and nothing needed", suite.Source{}, &config.Policy{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{Options: Options{Cluster: c.from, Config: "policy.yaml"}}
			err := s.usable(c.policy)
			if (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "some[0].namespaceSelector: usher does not know any Namespace; serve with --cluster=api") {
				t.Errorf("got %v", err)
			}
		})
	}
}
