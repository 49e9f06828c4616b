package resources

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/internal/nearest"
)

// Miss says why no request can match one resource of a rule. Its ID is the id of a finding of usherctl doctor.
type Miss struct{ ID, Why string }

// unsent are the resources, of the group of webhook configurations, of which the API server asks no webhook.
var unsent = []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies",
	"validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}

// Misses returns why no request matches a resource of a rule, or nil if one may.
func (all Table) Misses(rule registration.RuleWithOperations, name string) *Miss {
	base, sub, hasSub := strings.Cut(name, "/")
	if base == "*" {
		return all.unknownSub(rule, sub)
	}
	if slices.Contains(rule.APIGroups, registration.GroupName) && slices.Contains(unsent, base) {
		return &Miss{ID: "rule-never-sent", Why: name + " are sent to no webhook: a webhook could keep its own configuration from being corrected"}
	}
	lookup := name
	if sub == "*" {
		lookup = base
	}
	r := all.Has(rule.APIGroups, lookup)
	if r == nil {
		return all.unknown(rule, name, base, hasSub)
	}
	if !slices.Contains(rule.APIVersions, "*") && !slices.ContainsFunc(slices.Concat(r.Versions, r.optional),
		func(v string) bool { return slices.Contains(rule.APIVersions, v) }) {
		return &Miss{"rule-wrong-version", fmt.Sprintf("%s has no version %s; it is served as %s", name, and(rule.APIVersions), and(r.Versions))}
	}
	if why := wrongScopeOf(rule, name, *r); why != "" {
		return &Miss{"rule-wrong-scope", why}
	}
	if sub == "*" {
		return nil
	}
	return neverSentFor(rule, name, *r)
}

// unknownSub returns what is wrong with a subresource of every resource that none has, or nil.
func (all Table) unknownSub(rule registration.RuleWithOperations, sub string) *Miss {
	groups := rule.APIGroups
	if slices.Contains(groups, "*") {
		groups = slices.Sorted(maps.Keys(all.Groups))
	}
	names := all.names(groups)
	if sub == "" || sub == "*" || slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, "/"+sub) }) {
		return nil
	}
	if best := nearest.Of(sub, names); best != "" {
		return &Miss{"rule-unknown-resource", fmt.Sprintf("*/%s is the subresource %[1]s of every resource, and none has it; did you mean %s?", sub, best)}
	}
	if !all.knows(rule.APIGroups) {
		return nil
	}
	return &Miss{"rule-unknown-resource", "no resource has a subresource " + sub}
}

func wrongScopeOf(rule registration.RuleWithOperations, name string, r Resource) string {
	switch {
	case rule.Scope == nil:
		return ""
	case *rule.Scope == registration.NamespacedScope && r.ClusterScoped:
		return fmt.Sprintf("scope is Namespaced, but %s are cluster-scoped: the scope must be Cluster or *", name)
	case *rule.Scope == registration.ClusterScope && !r.ClusterScoped:
		return fmt.Sprintf("scope is Cluster, but %s are namespaced: the scope must be Namespaced or *", name)
	}
	return ""
}

func neverSentFor(rule registration.RuleWithOperations, name string, r Resource) *Miss {
	if slices.ContainsFunc(rule.Operations, func(o registration.OperationType) bool {
		return o == registration.OperationAll && len(r.Operations) > 0 || slices.Contains(r.Operations, o)
	}) {
		return nil
	}
	only := "there is no operation on it that webhooks see"
	if len(r.Operations) > 0 {
		only = "there is only " + and(words(r.Operations))
	}
	if name == "pods" && slices.Contains(rule.Operations, registration.Connect) {
		only += ". People connect to pods/exec, pods/attach, pods/portforward and pods/proxy: look whether the rule is meant for these"
	}
	return &Miss{"rule-never-sent", fmt.Sprintf("there is no %s of %s; %s", strings.Join(words(rule.Operations), " or "), name, only)}
}

func words(operations []registration.OperationType) (all []string) {
	for _, o := range operations {
		all = append(all, string(o))
	}
	return all
}

// unknown returns what is wrong with a resource that the groups of a rule do not have, or nil if it may come from a CRD.
func (all Table) unknown(rule registration.RuleWithOperations, name, base string, hasSub bool) *Miss {
	groups := and(groupNames(rule.APIGroups))
	if hasSub && all.Has(rule.APIGroups, base) != nil {
		return &Miss{"rule-unknown-resource", fmt.Sprintf("%s has no subresource %s", base, strings.TrimPrefix(name, base+"/"))}
	}
	if i := slices.IndexFunc(rule.APIGroups, func(g string) bool { return strings.Contains(g, "/") }); i >= 0 {
		bare, version, _ := strings.Cut(rule.APIGroups[i], "/")
		return &Miss{"rule-wrong-group", fmt.Sprintf("%s is a group with a version; the group is %s, and %s belongs into apiVersions",
			rule.APIGroups[i], bare, version)}
	}
	if !all.knows(rule.APIGroups) {
		return nil
	}
	if there := all.groupsWith(name); len(there) > 0 && !slices.Contains(rule.APIGroups, "*") && !all.foreign(rule.APIGroups) {
		return &Miss{"rule-wrong-group", fmt.Sprintf("%s has no resource %s; it is in %s", groups, name, and(groupNames(there)))}
	}
	if best := nearest.Of(name, all.names(rule.APIGroups)); best != "" {
		return &Miss{"rule-unknown-resource", fmt.Sprintf("%s has no resource %s; did you mean %s? Resources are in the plural and in lower case",
			groups, name, best)}
	}
	if slices.ContainsFunc(rule.APIGroups, func(g string) bool { return strings.Contains(g, ".") || g == "*" }) {
		if !all.Whole {
			return nil // another version of Kubernetes may have it
		}
		return &Miss{"rule-not-installed", fmt.Sprintf("%s has no resource %s in this cluster: its CustomResourceDefinition is not installed", groups,
			name)}
	}
	return &Miss{"rule-unknown-resource", fmt.Sprintf("%s has no resource %s", groups, name)}
}

// foreign reports whether one of some groups is that of a CustomResourceDefinition that is not installed: it is not served, and its name is not
// one of Kubernetes misspelt.
func (all Table) foreign(groups []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool {
		return all.Groups[g] == nil && strings.Contains(g, ".") && nearest.Of(g, slices.Sorted(maps.Keys(all.Groups))) == ""
	})
}

// groupNames returns the groups as they are spoken of.
func groupNames(groups []string) (names []string) {
	for _, group := range groups {
		switch group {
		case "":
			names = append(names, `the core group ("")`)
		case "*":
			names = append(names, "any group")
		default:
			names = append(names, "the group "+group)
		}
	}
	return names
}

// and returns words as a list in a sentence.
func and(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
