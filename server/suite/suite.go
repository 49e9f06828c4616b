// Package suite defines suites and instances. A Suite is a group of routes and everything they depend on, as a value;
// commands and the server work on suites without knowing their content. An Instance is suites with a policy, feature gates
// and the state of a cluster, of which its routes are made.
//
// Other modules may import this package, to serve suites of their own with server.Run. Its API holds from 0.1.0 on.
package suite

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
)

// Suite is a group of routes and everything they depend on. It is immutable: its functions get what they need as arguments, and may
// be called in any order. Name and Routes are required.
type Suite struct {
	Name string // as in --suite
	Doc  string // which objects it is for, in the printed configurations

	// Gates are the feature gates of its routes and steps.
	Gates []gate.Gate
	// ForeignGates are those of the program that the suite replaces which mean nothing here. They may be listed.
	ForeignGates []gate.Name
	// Default names the sections with which the policy begins that is used without a file, in the order to read them. Its
	// other sections follow. DefaultModes is the section modes of that policy, in YAML.
	Default      []string
	DefaultModes string

	// NewOptions returns options with their default values; nil: the suite has none. Options, which With sets, are those in use.
	NewOptions func() Options
	Options    Options

	// Routes returns all routes, regardless of the gates. Without a cluster they can be listed, but not used.
	Routes func(Env) []admit.Route
	// Collections returns the collections of the cluster that the steps may need.
	Collections func(Options) []cluster.Declared
	// Rights returns the permissions that usher needs besides watching, for the routes that are served.
	Rights func(served []admit.Route) []rbacv1.PolicyRule
	// Open returns the state of the suite besides the cluster, and the functions that run it; nil: none. It is called once for a cluster,
	// before that has any content.
	Open func(Env, Opening) Running

	// Tools answers what only tools ask of the suite: each asserts it to an interface of its own.
	Tools any
}

// Options are the options of a suite: a pointer to a struct.
type Options interface {
	// AddFlags adds the flags of every command that makes routes, AddServeFlags those of serve besides.
	AddFlags(*pflag.FlagSet)
	AddServeFlags(*pflag.FlagSet)
	// Check validates the values. source is where the cluster comes from: files or api.
	Check(source string) error
}

// Env holds the dependencies of the routes of a suite.
type Env struct {
	Policy  *config.Policy
	Gates   gate.Set
	Options Options          // of the suite; nil if it has none
	Cluster *cluster.Cluster // nil while routes are only listed
	State   any              // Running.State of the suite; nil while routes are only listed
}

// Opening is the second argument of Suite.Open.
type Opening struct {
	Source string             // files or api
	Served []admit.Route      // the enabled routes of all suites, which can only be listed
	Log    logrus.FieldLogger // set if the suite is started; nil for none
}

// Running holds the state of an opened suite, and the functions that run it. Fields may be nil.
type Running struct {
	// State is passed to the routes, as Env.State.
	State any
	// Follow has followers of collections, by their names.
	Follow map[string]cluster.Follower
	// Start begins the work in the background, which ends with ctx. It returns an error if the cluster is not as required.
	Start func(ctx context.Context) error
	// End is called after the last review, while what Start has begun still runs. It returns when nobody waits for anything of
	// this replica any more, or when ctx ends.
	End func(ctx context.Context)
	// Metrics are registered with those of the server. Debug has pages of the operations listener, by path, which begins with
	// /debug/. They are served to this machine only, or to users whom the API server permits it.
	Metrics []prometheus.Collector
	Debug   map[string]http.Handler
}

// With returns the suite with options in use, which NewOptions has returned.
func (s Suite) With(o Options) Suite {
	s.Options = o
	return s
}

// options returns the options in use, or the default ones; nil if the suite has none.
func (s Suite) options() Options {
	if s.Options == nil && s.NewOptions != nil {
		return s.NewOptions()
	}
	return s.Options
}

// Mutate returns the chain of a list of mutators, each of which can ask only about the collections that it needs.
func Mutate[T any](e Env, view func(*document.Document) *T, list func(*config.Policy, admit.Questions) []admit.Mutator[T]) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain {
		return admit.Mutate(view, list(e.Policy, e.Cluster.Reader(needs).Questions()))
	})
}

// Validate is like Mutate for a list of validators.
func Validate[T any](e Env, view func(*document.Document) *T, list func(*config.Policy, admit.Questions) []admit.Validator[T]) admit.Chain {
	return admit.PerStep(func(needs []string) admit.Chain {
		return admit.Validate(view, list(e.Policy, e.Cluster.Reader(needs).Questions()))
	})
}
