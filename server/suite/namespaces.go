package suite

import (
	"slices"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
)

// Overrides returns the overrides of the policy, and what they depend on for the requests of a route.
func (in Instance) Overrides(r admit.Route) ([]admit.Override, override.Context) {
	return config.SectionOf[override.List](in.Policy).Compile(), aroundRoute(r, in.around())
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

// aroundRoute returns the surroundings for the requests of one route. Reviews of nodes never wait for the state of the
// cluster.
func aroundRoute(r admit.Route, around override.Context) override.Context {
	if !mayHaveNamespace(r) {
		around.Namespace = nil
	}
	return around
}

// mayHaveNamespace reports whether overrides may select requests of a route by their namespace, under any policy: a
// Namespace counts as in itself.
func mayHaveNamespace(r admit.Route) bool {
	return len(r.For) == 0 || slices.ContainsFunc(r.For, func(m admit.Match) bool {
		return m.Scope != registration.ClusterScope || m.Kind.Kind == "" || m.Kind.Kind == "Namespace"
	})
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

// LimitRanges returns the LimitRanges of a namespace, or none if the suites keep none.
func (in Instance) LimitRanges(namespace string) ([]*corev1.LimitRange, error) {
	if !slices.ContainsFunc(in.Cluster.Status(), func(s cluster.Status) bool { return s.Name == admit.CollectionLimitRanges }) {
		return nil, nil
	}
	return in.Cluster.Reader([]string{admit.CollectionLimitRanges}).LimitRanges(namespace)
}
