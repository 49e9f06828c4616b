package requests

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/internal/resources"
)

// Catalogue describes the kinds that are known without an API server: the kinds of Kubernetes and of routes.
type Catalogue map[schema.GroupKind]known

// known describes one kind.
type known struct {
	versions      []string
	clusterScoped bool
}

// NewCatalogue returns the kinds of Kubernetes and of some routes.
func NewCatalogue(routes []admit.Route) Catalogue {
	c := Catalogue{}
	for _, kind := range resources.Kinds() {
		c[kind.GroupKind] = known{kind.Versions, kind.ClusterScoped}
	}
	for _, r := range routes {
		for _, m := range r.For {
			kind := schema.GroupVersionKind(m.Kind)
			if _, found := c[kind.GroupKind()]; !found && kind.Kind != "" {
				c[kind.GroupKind()] = known{[]string{kind.Version}, m.Scope == registration.ClusterScope}
			}
		}
	}
	return c
}

// Add adds a kind that a cluster serves.
func (c Catalogue) Add(kind schema.GroupVersionKind, clusterScoped bool) {
	is := c[kind.GroupKind()]
	if !slices.Contains(is.versions, kind.Version) {
		is.versions = append(slices.Clip(is.versions), kind.Version)
	}
	is.clusterScoped = clusterScoped
	c[kind.GroupKind()] = is
}

// Namespaced reports whether objects of a kind are known to live in namespaces. Those of unknown kinds may or may not.
func (c Catalogue) Namespaced(kind schema.GroupKind) bool {
	k, found := c[kind]
	return found && !k.clusterScoped
}

// stable are versions that are neither alpha nor beta.
var stable = regexp.MustCompile(`^v\d+$`)

// Check returns an error for a kind that no API server can have, with a suggestion. A kind of a group that is not
// Kubernetes' own may come from a CRD, so nothing is known of it.
func (c Catalogue) Check(kind schema.GroupVersionKind) error {
	if k, found := c[kind.GroupKind()]; found {
		if slices.Contains(k.versions, kind.Version) || !c.complete(kind.Group) && !stable.MatchString(kind.Version) {
			return nil
		}
		return fmt.Errorf("apiVersion %s: %s has no such version; did you mean %s?", kind.GroupVersion(), kind.Kind,
			schema.GroupVersion{Group: kind.Group, Version: k.versions[0]})
	}
	if best := nearest.Of(kind.Kind, c.kindsOf(kind.Group)); best != "" {
		return fmt.Errorf("kind %s: apiVersion %s has no such kind; did you mean %s?", kind.Kind, kind.GroupVersion(), best)
	}
	if !c.complete(kind.Group) {
		return nil
	}
	if there := c.elsewhere(kind.Kind); there != "" {
		return fmt.Errorf("apiVersion %s: has no kind %s; did you mean %s?", kind.GroupVersion(), kind.Kind, there)
	}
	return fmt.Errorf("kind %s: apiVersion %s has no such kind; `kubectl api-resources` lists those of a cluster", kind.Kind, kind.GroupVersion())
}

// kindsOf returns the known kinds of a group, sorted.
func (c Catalogue) kindsOf(group string) (kinds []string) {
	for k := range c {
		if k.Group == group {
			kinds = append(kinds, k.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// complete reports whether no CRD can add kinds to a group: its name has no dot, unlike the group of every CRD.
func (c Catalogue) complete(group string) bool { return !strings.Contains(group, ".") }

// elsewhere returns an apiVersion that has a kind of this name, or "".
func (c Catalogue) elsewhere(kind string) string {
	var all []string
	for k, about := range c {
		if strings.EqualFold(k.Kind, kind) {
			all = append(all, schema.GroupVersion{Group: k.Group, Version: about.versions[0]}.String()+", kind "+k.Kind)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(a) - len(b) })
	if len(all) == 0 {
		return ""
	}
	return "apiVersion " + all[0]
}
