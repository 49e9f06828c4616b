package webhookmatch

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
)

// meetsRules decides by rules and matchPolicy. If the rules match, as is the equivalent that the webhook gets.
func (r Request) meetsRules(h Hook) (as Equivalent, v Verdict) {
	own := Equivalent{Resource: r.resource(), Kind: r.kind(), SameFields: true}
	for _, rule := range h.Rules {
		if r.misses(rule, own.Resource) == admit.Covered {
			return own, v
		}
	}
	other, found := r.equivalentFor(h)
	closest := r.closest(h)
	switch exact := valueOr(h.MatchPolicy, registration.Equivalent) == registration.Exact; {
	case found && exact:
		return own, skip(MatchPolicy, "is Exact, and the rules are for %s, which has the same objects, but not for %s; use Equivalent",
			versioned(other.Resource), versioned(own.Resource))
	case found:
		return other, v
	case !exact && r.EquivalentsErr != nil && closest.byVersion:
		return own, skip(Unknown, "rules: are for another version or group, and whether the API server converts to it is not known: %v",
			r.EquivalentsErr)
	}
	return own, closest.verdict()
}

// equivalentFor returns the first equivalent resource that a rule is for.
func (r Request) equivalentFor(h Hook) (Equivalent, bool) {
	for _, rule := range h.Rules {
		for _, other := range r.Equivalents {
			if other.Resource != r.resource() && r.misses(rule, other.Resource) == admit.Covered {
				return other, true
			}
		}
	}
	return Equivalent{}, false
}

// unmatchedRule is a rule that a request misses.
type unmatchedRule struct {
	admit.Mismatch
	why       string
	byVersion bool // only group or version differ
}

func (u unmatchedRule) verdict() Verdict {
	if u.Mismatch == admit.OtherScope {
		return skip(Scope, "%s", u.why)
	}
	return skip(Rules, "%s", u.why)
}

// closest returns the rule that the request misses by the least.
func (r Request) closest(h Hook) (best unmatchedRule) {
	if len(h.Rules) == 0 {
		return unmatchedRule{why: "there are none"}
	}
	var resources []string
	for i, rule := range h.Rules {
		by := r.misses(rule, r.resource())
		if i == 0 || by > best.Mismatch {
			best = unmatchedRule{by, fmt.Sprintf("rules[%d].", i) + r.whyMissed(rule, by), r.missesVersion(rule, by)}
		}
		resources = append(resources, ruleNames(rule.Rule)...)
	}
	if best.Mismatch == admit.OtherResource {
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

// coreNamespaces are Namespaces, which are cluster-scoped although requests for them name a namespace.
var coreNamespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// RulesOf returns the rules of what a policy matches.
func RulesOf(m *registration.MatchResources) (all []registration.RuleWithOperations) {
	if m == nil {
		return nil
	}
	for _, r := range m.ResourceRules {
		all = append(all, r.RuleWithOperations)
	}
	return all
}

// RuleOf returns a rule of a webhook as admit compares it.
func RuleOf(rule registration.RuleWithOperations) admit.Rule {
	made := admit.Rule{Groups: rule.APIGroups, Versions: rule.APIVersions, Resources: rule.Resources}
	for _, operation := range rule.Operations {
		made.Operations = append(made.Operations, admissionv1.Operation(operation))
	}
	if rule.Scope != nil {
		made.Scope = *rule.Scope
	}
	return made
}

// misses compares a rule with the request as one for the given resource.
func (r Request) misses(rule registration.RuleWithOperations, as schema.GroupVersionResource) admit.Mismatch {
	inNamespace := r.Namespace != "" && as != coreNamespaces
	return RuleOf(rule).Misses(metav1.GroupVersionResource(as), r.subresource(), r.Operation, inNamespace)
}

// missesVersion reports whether a rule that the request misses differs only in group or version, apart from its scope.
func (r Request) missesVersion(rule registration.RuleWithOperations, by admit.Mismatch) bool {
	if by != admit.OtherGroup && by != admit.OtherVersion {
		return false
	}
	rule.APIGroups, rule.APIVersions = []string{"*"}, []string{"*"}
	return r.misses(rule, r.resource()) >= admit.OtherScope
}

// whyMissed names the field of a rule that the request misses.
func (r Request) whyMissed(rule registration.RuleWithOperations, by admit.Mismatch) string {
	switch as := r.resource(); by {
	case admit.OtherGroup:
		return fmt.Sprintf("apiGroups is %s, and %s is of the group %q", listed(rule.APIGroups), as.Resource, as.Group)
	case admit.OtherSubresource:
		why := fmt.Sprintf("resources is %s, which does not contain %s", listed(rule.Resources), r.fullName())
		if r.subresource() != "" {
			why += fmt.Sprintf("; a resource does not include its subresources, %s/* does", as.Resource)
		}
		return why
	case admit.OtherVersion:
		return fmt.Sprintf("apiVersions is %s, which does not contain %s", listed(rule.APIVersions), as.Version)
	case admit.OtherOperation:
		return fmt.Sprintf("operations is %s, which does not contain %s", listed(rule.Operations), r.Operation)
	case admit.OtherScope:
		if *rule.Scope == registration.NamespacedScope {
			return fmt.Sprintf("scope is Namespaced, and %s are not in a namespace; use Cluster or *", r.fullName())
		}
		return fmt.Sprintf("scope is Cluster, and %s are in namespaces; use Namespaced or *", r.fullName())
	}
	return ""
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
