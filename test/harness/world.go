package harness

import (
	"strings"
	"testing"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
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

// World is the program in process, with the sample cluster.
type World struct {
	suites  suite.List
	Policy  *config.Policy
	Gates   gate.Set
	Cluster *cluster.Cluster
}

// OpenWorld opens the sample cluster for the suites.
func OpenWorld(t testing.TB, suites suite.List, gates gate.Set, policy *config.Policy) World {
	t.Helper()
	suites.WithDefaults()
	w := World{suites: suites, Policy: policy, Gates: gates}
	var err error
	w.Cluster, err = suites.Open("files", gates, nil, func(o cluster.Options) (*cluster.Cluster, error) { return cluster.Files("samples/cluster", o) })
	if err != nil {
		t.Fatal(err)
	}
	return w
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

// Routes returns the routes that the gates enable.
func (w World) Routes() []admit.Route { return w.RoutesAt(time.Now) }

// RoutesAt is like Routes with a clock for the ends of overrides.
func (w World) RoutesAt(now func() time.Time) []admit.Route {
	return w.suites.Routes(w.Policy, w.Gates, suite.Around(w.Cluster, now))
}

// Table returns all routes.
func (w World) Table() []admit.Route { return w.suites.Table(w.Policy, w.Gates) }

// Worlds are the worlds of samples: each sample is reviewed under the policy of its step, or under the default policy.
type Worlds struct {
	suites   func() suite.List // makes new ones, as they have state
	byPolicy map[string]World
}

// NewWorlds returns the worlds of samples for the program whose suites are made by the given function.
func NewWorlds(suites func() suite.List) Worlds { return Worlds{suites, map[string]World{}} }

// Of returns the world of a sample. Samples with the same policy share it.
func (w Worlds) Of(t testing.TB, sample string) World {
	t.Helper()
	file := SamplePolicy(sample)
	world, known := w.byPolicy[file]
	if !known {
		suites := w.suites()
		policy := DefaultPolicy(t, suites)
		if file != "" {
			policy = ParsePolicy(t, suites, []byte(ReadFile(t, file)))
		}
		world = OpenWorld(t, suites, DemoGates(t, suites), policy)
		w.byPolicy[file] = world
	}
	return world
}
