package suite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/cluster"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/poll"
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

// Overrides returns the overrides of the policy, and what they depend on for the requests of a route.
func (in Instance) Overrides(r admit.Route) ([]admit.Override, override.Context) {
	return config.SectionOf[override.List](in.Policy).Compile(), aroundRoute(r, in.around())
}

// podRoutes returns the routes that the steps of a suite may ask about pods in the namespaces that the suite is for.
func (in Instance) podRoutes(routes []admit.Route, suite string, around override.Context) (all admit.PodRoutes) {
	before := in.Suites.Names()
	before = before[:max(0, slices.Index(before, suite))]
	for _, r := range routes {
		switch {
		case r.Suite == suite:
			all.Own = append(all.Own, r)
		case r.Chain.Mutates() && slices.Contains(before, r.Suite):
			all.Before = append(all.Before, r)
		}
	}
	all.Called = func(r admit.Route, req *admit.Request) (bool, error) {
		if r.OptIn == (admit.Label{}) || around.Namespace == nil {
			return r.OptIn == (admit.Label{}), nil
		}
		is, _, err := around.Namespace(req.Namespace)
		return err == nil && r.OptIn.NamespacesFor().Matches(labels.Set(is.Labels)), err
	}
	return all
}

// Off returns the routes that the gates switch off. An API server may still call them: see admit.Route.Off.
func (in Instance) Off() (off []admit.Route) {
	on := in.Routes()
	for _, r := range in.Table() {
		if !slices.ContainsFunc(on, func(other admit.Route) bool { return other.Path == r.Path }) {
			r.Off = true
			off = append(off, r)
		}
	}
	return off
}

// SwitchesOn returns the gates that switch a route on which they switch off, such as "A=true,B=false"; empty if there is none.
func (in Instance) SwitchesOn(path string) string {
	off := in.Off()
	i := slices.IndexFunc(off, func(r admit.Route) bool { return r.Path == path })
	if i < 0 {
		return ""
	}
	names := []gate.Name{off[i].Gate}
	if steps := off[i].Chain.Steps(); len(steps) > 0 && len(off[i].Chain.Gated(in.Gates.On).Steps()) == 0 {
		names = append(names, steps[0].Gate)
	}
	var settings []string
	for _, name := range names {
		if bare, negated := strings.CutPrefix(string(name), "!"); !in.Gates.On(name) {
			settings = append(settings, fmt.Sprintf("%s=%t", bare, !negated))
		}
	}
	return strings.Join(settings, ",")
}

// around returns what overrides depend on: nothing while routes are only listed.
func (in Instance) around() override.Context {
	if in.Cluster == nil {
		return override.Context{}
	}
	now := in.Now
	if now == nil {
		now = time.Now
	}
	return override.Context{Now: now, Namespace: in.Cluster.Reader([]string{admit.CollectionNamespaces}).NamespaceMeta}
}

// LimitRanges returns the LimitRanges of a namespace, or none if the suites keep none.
func (in Instance) LimitRanges(namespace string) ([]*corev1.LimitRange, error) {
	if !slices.ContainsFunc(in.Cluster.Status(), func(s cluster.Status) bool { return s.Name == admit.CollectionLimitRanges }) {
		return nil, nil
	}
	return in.Cluster.Reader([]string{admit.CollectionLimitRanges}).LimitRanges(namespace)
}

// aroundRoute returns the surroundings for the requests of one route. Reviews of nodes never wait for the state of the
// cluster.
func aroundRoute(r admit.Route, around override.Context) override.Context {
	if !mayHaveNamespace(r) {
		around.Namespace = nil
	}
	return around
}

// Source says where the state of the cluster comes from. The zero value stands for an empty cluster.
type Source struct {
	From       string            // api for an API server; files, or "", for files
	Kubeconfig string            // how to reach the API server; "" for as kubectl does, or as a pod
	Dir        string            // directory of manifests
	Manifests  map[string][]byte // contents of files, in the place of Dir
	Poll       poll.Times        // when Dir is read again
	Given      []manifest.Object // count beside files, see cluster.Options
	Missing    func(collection, key string)
}

// Open opens a cluster with the given options.
func (s Source) Open(o cluster.Options) (*cluster.Cluster, error) {
	o.Poll, o.Given, o.Missing = s.Poll, s.Given, s.Missing
	switch {
	case s.Manifests != nil:
		return cluster.Manifests(s.Manifests, o)
	case s.From != "api":
		return cluster.Files(s.Dir, o)
	}
	config, err := apiserver.LoadConfig(s.Kubeconfig, "")
	if err != nil {
		return nil, fmt.Errorf("--cluster=api: %w; pass --kubeconfig FILE, or run usher as a pod with the token of its service account", err)
	}
	return cluster.API(config, o)
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
