package suite

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
)

// List is the list of the program's suites, in the order in which the API server should call them.
type List []Suite

// NoPolicy is the policy for routes that are only listed.
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
	var foreign []gate.Name
	for _, suite := range s {
		foreign = append(foreign, suite.ForeignGates...)
	}
	set, err := gate.Parse(text, s.Gates(), foreign)
	if err != nil {
		return gate.Set{}, fmt.Errorf("--feature-gates: %w", err)
	}
	return set, nil
}

// Table returns all routes of all suites, regardless of the gates. They can be listed, but not used.
func (s List) Table(policy *config.Policy, gates gate.Set) []admit.Route {
	return Instance{Suites: s, Policy: policy, Gates: gates}.Table()
}

// Named returns the suites with the given names.
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

// Watched returns the options of a cluster that keeps the collections that the routes need. Namespaces are kept for the
// overrides of policies to come.
func (s List) Watched(served []admit.Route) (options cluster.Options) {
	for _, suite := range s {
		if suite.Collections != nil {
			options.Catalogue = append(options.Catalogue, suite.Collections(suite.options())...)
		}
	}
	for _, r := range served {
		options.Needs = append(options.Needs, r.Chain.Needs()...)
	}
	if slices.Contains(options.Catalogue, cluster.Declared(cluster.Namespaces)) {
		options.Needs = append(options.Needs, admit.CollectionNamespaces)
	}
	return options
}

// Rights returns usher's rights with --cluster=api: to watch what the served routes need, and what the suites need besides.
func (s List) Rights(served []admit.Route) []rbacv1.PolicyRule {
	rules := s.Watched(served).Rules()
	for _, suite := range s {
		if suite.Rights != nil {
			rules = append(rules, suite.Rights(served)...)
		}
	}
	return rules
}

// Describe lists the suites, and what each is for.
func (s List) Describe() string {
	var all []string
	for _, suite := range s {
		all = append(all, suite.Name+" ("+suite.Doc+")")
	}
	return strings.Join(all, ", ")
}
