package harness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/suite"
)

// DefaultServer returns a server without observers and with default limits for tests.
func DefaultServer() handlers.Server {
	return handlers.Server{
		Observe:  func(admit.Route, handlers.Decision, time.Duration) {},
		Limits:   handlers.NewLimits(8),
		Draining: func() bool { return false },
	}
}

// OpenInstance loads the suites with the sample cluster.
func OpenInstance(t testing.TB, suites suite.List, gates gate.Set, policy *config.Policy) suite.Instance {
	t.Helper()
	in, err := suite.Load(suite.Setup{Suites: suites, Policy: policy, Gates: gates, Cluster: suite.Source{Dir: "samples/cluster"}})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// DemoGates returns the gates of `make run`.
func DemoGates(t testing.TB, suites suite.List) gate.Set {
	t.Helper()
	gates, err := suites.ParseGates(strings.TrimSpace(ReadFile(t, "samples/feature-gates")))
	if err != nil {
		t.Fatal(err)
	}
	return gates
}

// DefaultPolicy returns the policy that is used without a file.
func DefaultPolicy(t testing.TB, suites suite.List) *config.Policy {
	t.Helper()
	return ParsePolicy(t, suites, suites.Schema().DefaultYAML())
}

// ParsePolicy parses a policy that must be valid.
func ParsePolicy(t testing.TB, suites suite.List, text []byte) *config.Policy {
	t.Helper()
	policy, problems := config.Parse(text, suites.Schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return policy
}

// Together returns the policy under which every step for pods is at work: together.yaml, with the documented section of each step whose
// section it lacks.
func Together(t testing.TB, suites suite.List) *config.Policy {
	t.Helper()
	text := []byte(ReadFile(t, "test/testdata/policies/together.yaml"))
	all, documented := map[string]any{}, map[string]any{}
	if err := errors.Join(yaml.Unmarshal(text, &all), yaml.Unmarshal([]byte(ReadFile(t, "samples/policy.yaml")), &documented)); err != nil {
		t.Fatal(err)
	}
	for _, r := range suites.Table(ParsePolicy(t, suites, text), DemoGates(t, suites)) {
		for _, s := range r.Chain.Steps() {
			if name := s.SectionName(); s.Idle && strings.HasSuffix(r.Path, "-pods") && all[name] == nil && documented[name] != nil {
				all[name] = documented[name]
			}
		}
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return ParsePolicy(t, suites, text)
}

// Instances holds the instances of samples: each sample is reviewed under the policy of its step, or under the default
// policy.
type Instances struct {
	suites   suite.List
	byPolicy map[string]suite.Instance
}

// NewInstances returns the instances of samples for some suites.
func NewInstances(suites suite.List) Instances {
	return Instances{suites, map[string]suite.Instance{}}
}

// Of returns the instance of a sample. Samples with the same policy share it.
func (all Instances) Of(t testing.TB, sample string) suite.Instance {
	t.Helper()
	file := SamplePolicy(sample)
	in, known := all.byPolicy[file]
	if !known {
		policy := DefaultPolicy(t, all.suites)
		if file != "" {
			policy = ParsePolicy(t, all.suites, []byte(ReadFile(t, file)))
		}
		in = OpenInstance(t, all.suites, DemoGates(t, all.suites), policy)
		all.byPolicy[file] = in
	}
	return in
}
