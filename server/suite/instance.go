package suite

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
)

// Instance is usher with a policy, feature gates and the state of a cluster. Without Cluster, its routes can be listed,
// but not used.
type Instance struct {
	Suites  List // whose routes are served
	Policy  *config.Policy
	Gates   gate.Set
	Cluster *cluster.Cluster
	Running map[string]Running // by the names of the suites; nil while routes are only listed
	Now     func() time.Time   // for the ends of overrides; nil for time.Now
}

// Setup configures the instance that Load makes.
type Setup struct {
	Suites  List
	Names   []string // of the suites whose routes are served; nil for all
	Policy  *config.Policy
	Gates   gate.Set
	Cluster Source
	Now     func() time.Time
	Log     logrus.FieldLogger // for changes of the cluster; nil for none
}

// Load opens the cluster, and returns the instance.
func Load(s Setup) (Instance, error) {
	in := Instance{Suites: s.Suites, Policy: s.Policy, Gates: s.Gates, Now: s.Now}
	var err error
	if s.Names != nil {
		if in.Suites, err = s.Suites.Named(s.Names); err != nil {
			return in, err
		}
	}
	in.Cluster, in.Running, err = s.Suites.open(s.Cluster, s.Gates, s.Log)
	return in, err
}

// Env returns the dependencies of the routes of a suite.
func (in Instance) Env(s Suite) Env {
	return Env{Policy: in.Policy, Gates: in.Gates, Options: s.options(), Cluster: in.Cluster, State: in.Running[s.Name].State}
}

// Table returns all routes, regardless of the gates.
func (in Instance) Table() (all []admit.Route) {
	for _, suite := range in.Suites {
		all = append(all, suite.Routes(in.Env(suite))...)
	}
	return all
}

// Routes returns the enabled routes with their enabled steps, in the modes of the policy and of its overrides.
func (in Instance) Routes() (served []admit.Route) {
	modes, overrides, around := config.SectionOf[admit.Modes](in.Policy), config.SectionOf[override.List](in.Policy).Compile(), in.around()
	for _, r := range in.Table() {
		r.Chain = r.Chain.Gated(in.Gates.On).WithModes(modes).WithOverrides(override.Of(overrides, aroundRoute(r, around)))
		if in.Gates.On(r.Gate) && len(r.Chain.Steps()) > 0 {
			served = append(served, r)
		}
	}
	asked := slices.Clone(served)
	for i := range served {
		served[i].Chain = served[i].Chain.ForPods(in.podRoutes(asked, served[i].Suite, around))
	}
	return served
}

// open opens a cluster for the suites, with the collections that the enabled steps need.
func (s List) open(from Source, gates gate.Set, log logrus.FieldLogger) (*cluster.Cluster, map[string]Running, error) {
	served := Instance{Suites: s, Policy: NoPolicy, Gates: gates}.Routes()
	options, running := s.Watched(served), map[string]Running{}
	options.Log = log
	options.Follow = func(opened *cluster.Cluster) map[string]cluster.Follower {
		in, all := Instance{Policy: NoPolicy, Gates: gates, Cluster: opened}, map[string]cluster.Follower{}
		for _, suite := range s {
			if suite.Open != nil {
				is := suite.Open(in.Env(suite), Opening{Source: cmp.Or(from.From, "files"), Served: served, Log: log})
				running[suite.Name] = is
				maps.Copy(all, is.Follow)
			}
		}
		return all
	}
	opened, err := from.Open(options)
	return opened, running, err
}

// Start begins the work of the suites in the background.
func (in Instance) Start(ctx context.Context) error {
	for _, suite := range in.Suites {
		if start := in.Running[suite.Name].Start; start != nil {
			if err := start(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// End ends what others wait for, suite after suite.
func (in Instance) End(ctx context.Context) {
	for _, suite := range in.Suites {
		if end := in.Running[suite.Name].End; end != nil {
			end(ctx)
		}
	}
}
