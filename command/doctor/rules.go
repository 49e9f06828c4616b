package doctor

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/command/review"
	"usher.dev/usher/internal/resources"
)

// ruleProblems returns the rules of a webhook that can never match, as far as the resources are known. What others have
// misspelt is an error if the webhook is not called at all for it, else a warning. An operation that does not occur on a
// resource among others is often there for the sake of a short rule.
func ruleProblems(w entry, all resources.Table) (found []review.Finding) {
	var misses []resources.Miss
	named := 0
	for i, rule := range w.Rules {
		for j, name := range rule.Resources {
			named++
			m := all.Misses(rule, name)
			if m != nil && m.ID == "rule-wrong-scope" && w.ushers() && !w.differs() {
				continue // a rule of the policy for both scopes has a webhook for each
			}
			if m != nil && m.ID == "rule-never-sent" && w.file != "" && slices.Contains(rule.APIGroups, registrationGroup) {
				continue // only webhooks in files are called for configurations
			}
			if m != nil {
				m.Why = fmt.Sprintf("rules[%d]: %s", i, m.Why)
				m.Field = strings.Replace(fmt.Sprintf("rules.%d.%s", i, m.Field), "resources", fmt.Sprintf("resources.%d", j), 1)
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
		about, known := w.about(), true
		for _, m := range misses {
			if m.ID != c.ID {
				continue
			}
			why, known = append(why, m.Why), known && m.Value != nil
			about.changes = withChange(about.changes, change{m.Field, m.Value})
		}
		if !known {
			about.changes = nil
		}
		switch {
		case len(why) == 0:
		case c.ID == "rule-not-installed":
			found = append(found, problem(c.ID, about, "%s. The webhook is called once it is installed.", strings.Join(why, "; ")))
		default:
			f := milder(problem(c.ID, about, "%s. The API server never calls the webhook for it.", strings.Join(why, "; ")), severity)
			if c.ID == "rule-never-sent" && severity == review.Warning && !w.ushers() {
				f.Severity = review.Info
			}
			found = append(found, f)
		}
	}
	return found
}

// withChange returns changes with one more. Lists for the same field become one.
func withChange(all []change, next change) []change {
	i := slices.IndexFunc(all, func(c change) bool { return c.field == next.field })
	if i < 0 {
		return append(all, next)
	}
	first, isList := all[i].value.([]string)
	if more, also := next.value.([]string); isList && also {
		all[i].value = slices.Concat(first, slices.DeleteFunc(slices.Clone(more), func(v string) bool { return slices.Contains(first, v) }))
	}
	return all
}

// exactProblem returns the finding for a webhook with matchPolicy Exact that misses versions of what it names.
func exactProblem(w entry, all resources.Table) (found []review.Finding) {
	if w.MatchPolicy == nil || *w.MatchPolicy != registration.Exact {
		return nil
	}
	var missed []string
	for _, rule := range w.Rules {
		for _, name := range rule.Resources {
			r := all.Has(rule.APIGroups, name)
			if r == nil || slices.Contains(rule.APIVersions, "*") {
				continue
			}
			for _, version := range r.Versions {
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
