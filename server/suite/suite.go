// Package suite defines suites and instances. A Suite is a group of routes and everything they depend on, as a value;
// commands and the server work on suites without knowing their content. An Instance is suites with a policy, feature gates
// and the state of a cluster, of which its routes are made.
//
// Other modules may import this package, to build a usher of their own with suites of their own: see command.Program.
package suite

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
)

// Suite is a group of routes and everything they depend on. Fields may be nil or empty. The functions are called in the
// order of the fields; the functions of one suite may share state.
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
	// Kinds maps the kinds that it reviews to their Go types, so that `usher review` finds unknown fields.
	Kinds map[metav1.GroupVersionKind]func() any

	// Flags adds flags to every command that makes routes, ServeFlags to serve only. Check validates their values.
	Flags, ServeFlags func(*pflag.FlagSet)
	Check             func(source string) error

	// Catalogue returns the collections of the cluster that its steps may need. Rights returns the other permissions
	// that usher needs for the routes that are served.
	Catalogue func() []cluster.Declared
	Rights    func(served []admit.Route) []rbacv1.PolicyRule

	// Routes returns all routes, regardless of the gates. Before Open has been called, the routes can be listed but not
	// used.
	Routes func(*config.Policy, gate.Set) []admit.Route
	// Open is called before the cluster is opened. It may register followers of collections.
	Open func(Opening)
	// Use is called with the cluster after it has been opened.
	Use func(*cluster.Cluster)
	// Start is called by serve after Use. It may return an error if the cluster is not as required. What it starts ends
	// with ctx.
	Start func(context.Context, logrus.FieldLogger) error
	// End is called by serve after the last review, while what Start has started still runs. It returns when nobody waits for
	// anything of this replica any more, or when ctx ends.
	End func(ctx context.Context)

	// Metrics and Debug are called after Open. Debug returns pages of the operations listener, by path, which begins with
	// /debug/. They are served to this machine only, or to users whom the API server permits it.
	Metrics func() []prometheus.Collector
	Debug   func() map[string]http.Handler
	// Explain returns what `usher review` reports about a review in addition to its verdict; with why, including
	// reasons. It is called before the review is decided, so that the review itself is not counted yet.
	Explain func(body []byte, why bool) ([]Note, error)
	// Usage answers what `usher quota` asks; nil if the suite has no quotas.
	Usage func(context.Context, UsageQuestion) (Usage, error)
}

// Opening is the argument of Suite.Open.
type Opening struct {
	Source  string // files or api
	Gates   gate.Set
	Routes  []admit.Route // the enabled routes of all suites
	Options *cluster.Options
}
