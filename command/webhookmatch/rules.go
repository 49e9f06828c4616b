package webhookmatch

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// meetsRules decides by rules and matchPolicy. If it does not, as is what the webhook gets.
func (r Request) meetsRules(h Hook) (as Equivalent, v Verdict) {
	own := Equivalent{Resource: r.resource(), Kind: r.kind(), SameFields: true}
	for _, rule := range h.Rules {
		if r.differs(rule, own.Resource).filter == "" {
			return own, v
		}
	}
	other, found := r.equivalentFor(h)
	closest := r.closest(h)
	if h.MatchPolicy != nil && *h.MatchPolicy == registration.Exact {
		if found {
			return own, no(MatchPolicy, "is Exact, and the rules are for %s, which has the same objects, but not for %s; use Equivalent",
				versioned(other.Resource), versioned(own.Resource))
		}
		return own, closest.verdict()
	}
	if found {
		return other, v
	}
	if r.EquivalentsErr != nil && closest.byVersion {
		return own, no(Unknown, "rules: are for another version or group, and whether the API server converts to it is not known: %v",
			r.EquivalentsErr)
	}
	return own, closest.verdict()
}

// equivalentFor returns the first equivalent resource that a rule is for.
func (r Request) equivalentFor(h Hook) (Equivalent, bool) {
	for _, rule := range h.Rules {
		for _, other := range r.Equivalents {
			if other.Resource != r.resource() && r.differs(rule, other.Resource).filter == "" {
				return other, true
			}
		}
	}
	return Equivalent{}, false
}

// difference is the first field of a rule that a request does not meet; the zero value if it meets all.
type difference struct {
	rank        int // the higher, the closer the rule is
	filter, why string
	byVersion   bool // only group or version differ, as far as it was looked at
}

func (d difference) verdict() Verdict { return no(d.filter, "%s", d.why) }

// closest returns the difference of the rule that the request misses by the least.
func (r Request) closest(h Hook) (best difference) {
	if len(h.Rules) == 0 {
		return difference{filter: Rules, why: "there are none"}
	}
	var resources []string
	for i, rule := range h.Rules {
		d := r.differs(rule, r.resource())
		d.why = fmt.Sprintf("rules[%d].", i) + d.why
		if i == 0 || d.rank > best.rank {
			best = d
		}
		resources = append(resources, ruleNames(rule.Rule)...)
	}
	if best.rank == 0 { // it is about something else
		slices.Sort(resources)
		best.why = fmt.Sprintf("are for %s, not for %s", listed(slices.Compact(resources)), r.named())
	}
	return best
}

// named returns the resource with its group, as rules in ruleNames.
func (r Request) named() string {
	return schema.GroupResource{Group: r.resource().Group, Resource: r.fullName()}.String()
}

// ruleNames returns what a rule is for, such as pods and deployments.apps.
func ruleNames(rule registration.Rule) (names []string) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			names = append(names, schema.GroupResource{Group: group, Resource: resource}.String())
		}
	}
	return names
}

// differs compares a rule with the request as one for the given resource.
func (r Request) differs(rule registration.RuleWithOperations, as schema.GroupVersionResource) difference {
	subresource := r.subresource()
	resources := slices.ContainsFunc(rule.Resources, func(text string) bool {
		resource, sub, _ := strings.Cut(text, "/")
		return (resource == "*" || resource == as.Resource) && (sub == "*" || sub == subresource)
	})
	plain := slices.ContainsFunc(rule.Resources, func(text string) bool {
		resource, _, _ := strings.Cut(text, "/")
		return resource == "*" || resource == as.Resource
	})
	group := hasOrAll(rule.APIGroups, as.Group)
	operation := hasOrAll(rule.Operations, registration.OperationType(r.Operation))
	switch {
	case !group && !plain:
		return difference{filter: Rules}
	case !group:
		return difference{filter: Rules, rank: 1, byVersion: resources && operation,
			why: fmt.Sprintf("apiGroups is %s, and %s is of the group %q", listed(rule.APIGroups), as.Resource, as.Group)}
	case !plain:
		return difference{filter: Rules}
	case !resources:
		why := fmt.Sprintf("resources is %s, which does not contain %s", listed(rule.Resources), r.fullName())
		return difference{filter: Rules, rank: 2, why: why + subresourceRemedy(as.Resource, subresource)}
	case !hasOrAll(rule.APIVersions, as.Version):
		return difference{filter: Rules, rank: 3, byVersion: operation,
			why: fmt.Sprintf("apiVersions is %s, which does not contain %s", listed(rule.APIVersions), as.Version)}
	case !operation:
		return difference{filter: Rules, rank: 4,
			why: fmt.Sprintf("operations is %s, which does not contain %s", listed(rule.Operations), r.Operation)}
	}
	return r.differsInScope(rule, as)
}

// subresourceRemedy says what a rule needs to be for a subresource.
func subresourceRemedy(resource, subresource string) string {
	if subresource == "" {
		return ""
	}
	return fmt.Sprintf("; a resource does not include its subresources, %s/* does", resource)
}

// coreNamespaces are Namespaces, which are cluster-scoped although requests for them name a namespace.
var coreNamespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func (r Request) differsInScope(rule registration.RuleWithOperations, as schema.GroupVersionResource) difference {
	inNamespace := r.Namespace != "" && as != coreNamespaces
	switch {
	case rule.Scope == nil || *rule.Scope == registration.AllScopes:
	case *rule.Scope == registration.NamespacedScope && !inNamespace:
		return difference{filter: Scope, rank: 5,
			why: fmt.Sprintf("scope is Namespaced, and %s are not in a namespace; use Cluster or *", r.fullName())}
	case *rule.Scope == registration.ClusterScope && inNamespace:
		return difference{filter: Scope, rank: 5,
			why: fmt.Sprintf("scope is Cluster, and %s are in namespaces; use Namespaced or *", r.fullName())}
	}
	return difference{}
}

func hasOrAll[T ~string](list []T, one T) bool {
	return slices.Contains(list, "*") || slices.Contains(list, one)
}

// listed shows a list of a rule. The core group is "".
func listed[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = string(one)
		if one == "" {
			texts[i] = `""`
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// versioned returns a resource as in the path of the API, such as apps/v1 deployments.
func versioned(r schema.GroupVersionResource) string {
	return r.GroupVersion().String() + " " + r.Resource
}
