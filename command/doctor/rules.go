package doctor

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/command/review"
	"usher.dev/usher/internal/nearest"
)

// unmatchedRule says why one resource of a rule can never match, and the field of the rule with the value that it should have.
type unmatchedRule struct {
	id, why string
	field   string
	value   any
}

// ruleProblems returns the rules of a webhook that can never match, as far as the resources are known. What others have
// misspelt is an error if the webhook is not called at all for it, else a warning.
func ruleProblems(w entry, all resources) (found []review.Finding) {
	var misses []unmatchedRule
	named := 0
	for i, rule := range w.Rules {
		for j, name := range rule.Resources {
			named++
			if m := all.misses(rule, name); m != nil {
				m.why = fmt.Sprintf("rules[%d]: %s", i, m.why)
				m.field = strings.Replace(fmt.Sprintf("rules.%d.%s", i, m.field), "resources", fmt.Sprintf("resources.%d", j), 1)
				misses = append(misses, *m)
			}
		}
	}
	severity := review.Warning
	if len(misses) == named {
		severity = review.Error
	}
	for _, c := range checks {
		var why []string
		var about subject
		for _, m := range misses {
			if m.id != c.ID {
				continue
			}
			if why = append(why, m.why); len(why) == 1 {
				about = w.lacks(m.field, m.value)
			}
		}
		switch {
		case len(why) == 0:
		case c.ID == "rule-not-installed":
			found = append(found, problem(c.ID, about, "%s. The webhook is called once it is installed.", strings.Join(why, "; ")))
		default:
			f := problem(c.ID, about, "%s. The API server never calls the webhook for it.", strings.Join(why, "; "))
			found = append(found, milder(f, severity))
		}
	}
	return found
}

// misses returns why no request matches a resource of a rule, or nil if one may.
func (all resources) misses(rule registration.RuleWithOperations, name string) *unmatchedRule {
	base, sub, hasSub := strings.Cut(name, "/")
	if base == "*" {
		return nil
	}
	lookup := name
	if sub == "*" {
		lookup = base
	}
	r := all.has(rule.APIGroups, lookup)
	if r == nil {
		return all.unknown(rule, name, base, hasSub)
	}
	if !slices.Contains(rule.APIVersions, "*") && !slices.ContainsFunc(r.versions,
		func(v string) bool { return slices.Contains(rule.APIVersions, v) }) {
		return &unmatchedRule{"rule-wrong-version", fmt.Sprintf("%s has no version %s; it is served as %s", name, review.List(rule.APIVersions), review.List(r.versions)),
			"apiVersions", r.versions}
	}
	if why := wrongScopeOf(rule, name, *r); why != "" {
		return &unmatchedRule{"rule-wrong-scope", why, "scope", registration.AllScopes}
	}
	if sub == "*" {
		return nil
	}
	return neverSentFor(rule, name, *r)
}

func wrongScopeOf(rule registration.RuleWithOperations, name string, r served) string {
	switch {
	case rule.Scope == nil:
		return ""
	case *rule.Scope == registration.NamespacedScope && r.clusterScoped:
		return fmt.Sprintf("scope is Namespaced, but %s are cluster-scoped: the scope must be Cluster or *", name)
	case *rule.Scope == registration.ClusterScope && !r.clusterScoped:
		return fmt.Sprintf("scope is Cluster, but %s are namespaced: the scope must be Namespaced or *", name)
	}
	return ""
}

func neverSentFor(rule registration.RuleWithOperations, name string, r served) *unmatchedRule {
	if slices.ContainsFunc(rule.Operations, func(o registration.OperationType) bool {
		return o == registration.OperationAll && len(r.operations) > 0 || slices.Contains(r.operations, o)
	}) {
		return nil
	}
	only := "there is no operation on it that webhooks see"
	if len(r.operations) > 0 {
		only = "there is only " + review.List(words(r.operations))
	}
	m := &unmatchedRule{id: "rule-never-sent", why: fmt.Sprintf("there is no %s of %s; %s", strings.Join(words(rule.Operations), " or "), name, only)}
	if len(r.operations) > 0 && len(rule.Resources) == 1 {
		m.field, m.value = "operations", r.operations
	}
	return m
}

func words(operations []registration.OperationType) (all []string) {
	for _, o := range operations {
		all = append(all, string(o))
	}
	return all
}

// unknown returns what is wrong with a resource that the groups of a rule do not have, or nil if it may come from a CRD.
func (all resources) unknown(rule registration.RuleWithOperations, name, base string, hasSub bool) *unmatchedRule {
	groups := review.List(groupNames(rule.APIGroups))
	if hasSub && all.has(rule.APIGroups, base) != nil {
		return &unmatchedRule{"rule-unknown-resource", fmt.Sprintf("%s has no subresource %s", base, strings.TrimPrefix(name, base+"/")), "", nil}
	}
	if best := nearest.Of(name, all.names(rule.APIGroups)); best != "" {
		return &unmatchedRule{"rule-unknown-resource", fmt.Sprintf("%s has no resource %s; did you mean %s? Resources are in the plural and in lower case",
			groups, name, best),
			"resources", best}
	}
	there := all.groupsWith(name)
	if len(there) > 0 && !slices.Contains(rule.APIGroups, "*") && all.mayHave(rule.APIGroups) {
		return &unmatchedRule{"rule-wrong-group", fmt.Sprintf("%s has no resource %s; it is in %s", groups, name, review.List(groupNames(there))), "apiGroups", there}
	}
	if !all.knows(rule.APIGroups) {
		return nil
	}
	if slices.ContainsFunc(rule.APIGroups, func(g string) bool { return strings.Contains(g, ".") || g == "*" }) {
		return &unmatchedRule{"rule-not-installed", fmt.Sprintf("%s has no resource %s in this cluster: its CustomResourceDefinition is not installed", groups,
			name), "", nil}
	}
	return &unmatchedRule{"rule-unknown-resource", fmt.Sprintf("%s has no resource %s", groups, name), "", nil}
}

// mayHave reports whether one of some groups is there, or cannot come from a CustomResourceDefinition.
func (all resources) mayHave(groups []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return all.groups[g] != nil || !strings.Contains(g, ".") })
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

// exactProblem returns the finding for a webhook with matchPolicy Exact that misses versions of what it names.
func exactProblem(w entry, all resources) (found []review.Finding) {
	if w.MatchPolicy == nil || *w.MatchPolicy != registration.Exact {
		return nil
	}
	var missed []string
	for _, rule := range w.Rules {
		for _, name := range rule.Resources {
			r := all.has(rule.APIGroups, name)
			if r == nil || slices.Contains(rule.APIVersions, "*") {
				continue
			}
			for _, version := range r.versions {
				if !slices.ContainsFunc(w.Rules, func(other registration.RuleWithOperations) bool {
					return slices.Contains(other.APIVersions, version) && slices.Contains(other.Resources, name)
				}) && !slices.Contains(missed, name+" in "+version) {
					missed = append(missed, name+" in "+version)
				}
			}
		}
	}
	if len(missed) == 0 {
		return nil
	}
	return []review.Finding{problem("match-policy-exact", w.lacks("matchPolicy", registration.Equivalent), "matchPolicy is Exact, and "+
		"the rules leave out %s: a request in another version than those of the rules does not reach the webhook. Equivalent, the default, "+
		"covers all versions.", review.List(missed))}
}
