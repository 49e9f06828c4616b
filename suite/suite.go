// Package suite says what a suite is: a group of routes with what feeds them, as a value. Commands know suites, and never what is in them.
package suite

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
)

// Suite is a group of routes and what feeds them, as a value: a command knows suites, and never what is in them. A nil field is nothing.
// Fields are called in the order in which they stand here; the functions of one suite share what they remember.
type Suite struct {
	Name string // as --suite names it
	Doc  string // what it is for in the printed configurations

	// Gates are the feature gates that switch its routes and steps.
	Gates []gate.Gate
	// Sections are its sections of the policy file, and DefaultPolicy what it adds to the policy that is used without a file.
	Sections      map[string]func() config.Section
	DefaultPolicy string
	// Kinds are the typed objects behind the kinds that it reviews, for `usher review` to find unknown fields.
	Kinds map[metav1.GroupVersionKind]func() any

	// Flags adds the flags of every command that makes routes, ServeFlags those of serve alone. Check reports what is wrong with them.
	Flags, ServeFlags func(*pflag.FlagSet)
	Check             func(source string) error

	// Catalogue returns the collections of the cluster that its steps may need, Rights what else usher must be allowed to do for the routes
	// that are served.
	Catalogue func() []cluster.Declared
	Rights    func(served []handlers.Route) []rbacv1.PolicyRule

	// Routes returns every route, whatever the gates are. Steps answer by what Open was given; before, routes are merely listed.
	Routes func(*config.Policy, gate.Set) []handlers.Route
	// Open is called before the cluster is opened. It may follow collections.
	Open func(Opening)
	// Use gets the cluster that was opened.
	Use func(*cluster.Cluster)
	// Start is called by serve after Use, and may fail for what it finds in the cluster. What it starts ends with ctx.
	Start func(context.Context, logrus.FieldLogger) error

	// Metrics and Debug are asked after Open. Debug are pages of the operations listener, by path.
	Metrics func() []prometheus.Collector
	Debug   func() map[string]http.Handler
	// Explain returns what `usher review` says about a review beside its verdict. It is asked before the review counts; why asks for reasons,
	// too.
	Explain func(body []byte, why bool) ([]Remark, error)
}

// Opening is what a suite learns before the cluster is opened.
type Opening struct {
	Source  string // files or api
	Gates   gate.Set
	Routes  []handlers.Route // those that the gates leave, of all suites
	Options *cluster.Options
}

// List are those of the program, in the order in which the API server should call them.
type List []Suite

// NoPolicy is the policy by which routes are merely listed.
var NoPolicy = &config.Policy{}

// Gates returns the gates of all suites.
func (s List) Gates() (all []gate.Gate) {
	for _, suite := range s {
		all = append(all, suite.Gates...)
	}
	return all
}

// ParseGates reads --feature-gates, such as A=true,B=false.
func (s List) ParseGates(text string) (gate.Set, error) {
	set, err := gate.Parse(text, s.Gates())
	if err != nil {
		return gate.Set{}, fmt.Errorf("--feature-gates: %w", err)
	}
	return set, nil
}

// Schema returns what a policy file may hold.
func (s List) Schema() config.Schema {
	schema := config.Schema{Sections: map[string]func() config.Section{}}
	for _, suite := range s {
		for name, section := range suite.Sections {
			schema.Sections[name] = section
		}
		schema.Default += suite.DefaultPolicy
	}
	for _, route := range s.Table(NoPolicy, gate.Defaults(s.Gates())) {
		for _, step := range route.Chain.Steps() {
			if !slices.Contains(schema.Steps, step.Name) {
				schema.Steps = append(schema.Steps, step.Name)
			}
		}
	}
	return schema
}

// Table returns every route of every suite: the table of contents.
func (s List) Table(policy *config.Policy, gates gate.Set) (all []handlers.Route) {
	for _, suite := range s {
		all = append(all, suite.Routes(policy, gates)...)
	}
	return all
}

// Routes returns the routes that the gates leave, with the steps that they leave, in the modes of the policy. A new policy makes new routes.
func (s List) Routes(policy *config.Policy, gates gate.Set) (served []handlers.Route) {
	for _, r := range s.Table(policy, gates) {
		r.Chain = r.Chain.Gated(gates.On).WithModes(policy.Modes)
		if gates.On(r.Gate) && len(r.Chain.Steps()) > 0 {
			served = append(served, r)
		}
	}
	return served
}

// Named returns the suites of those names.
func (s List) Named(names []string) (chosen List, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(s, func(suite Suite) bool { return suite.Name == name }) {
			return nil, fmt.Errorf("--suite %q: must be %s", name, strings.Join(s.Names(), " or "))
		}
	}
	for _, suite := range s {
		if slices.Contains(names, suite.Name) {
			chosen = append(chosen, suite)
		}
	}
	return chosen, nil
}

// Names returns the names of the suites.
func (s List) Names() (names []string) {
	for _, suite := range s {
		names = append(names, suite.Name)
	}
	return names
}

// Open opens a cluster for the suites, with what the steps that the gates leave need. source is files or api, and open opens it with the
// options that it is given.
func (s List) Open(source string, gates gate.Set, log logrus.FieldLogger, open func(cluster.Options) (*cluster.Cluster, error)) (*cluster.Cluster, error) {
	served := s.Routes(NoPolicy, gates)
	options := s.Watched(served)
	options.Log = log
	for _, suite := range s {
		if suite.Open != nil {
			suite.Open(Opening{source, gates, served, &options})
		}
	}
	known, err := open(options)
	if err != nil {
		return nil, err
	}
	for _, suite := range s {
		if suite.Use != nil {
			suite.Use(known)
		}
	}
	return known, nil
}

// Watched returns what of a cluster is kept: what the steps of the routes need.
func (s List) Watched(served []handlers.Route) (options cluster.Options) {
	for _, suite := range s {
		if suite.Catalogue != nil {
			options.Catalogue = append(options.Catalogue, suite.Catalogue()...)
		}
	}
	for _, r := range served {
		options.Needs = append(options.Needs, r.Chain.Needs()...)
	}
	return options
}

// Start starts what suites run in the background.
func (s List) Start(ctx context.Context, log logrus.FieldLogger) error {
	for _, suite := range s {
		if suite.Start != nil {
			if err := suite.Start(ctx, log); err != nil {
				return err
			}
		}
	}
	return nil
}

// Kinds returns the typed objects behind the kinds that routes are for.
func (s List) Kinds() map[metav1.GroupVersionKind]func() any {
	all := map[metav1.GroupVersionKind]func() any{}
	for _, suite := range s {
		maps.Copy(all, suite.Kinds)
	}
	return all
}

// Describe names the suites, and what each is for.
func (s List) Describe() string {
	var all []string
	for _, suite := range s {
		all = append(all, suite.Name+" ("+suite.Doc+")")
	}
	return strings.Join(all, ", ")
}
