package doctor

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/internal/resources"
	"usher.dev/usher/usherctl/report"
)

// ruleProblems returns the rules of a webhook that can never match, as far as the resources are known. What others have
// misspelt is an error if the webhook is not called at all for it, else a warning.
func ruleProblems(w entry, all resources.Table) (found []report.Finding) {
	misses, named := w.misses(all)
	severity := report.Warning
	if len(misses) == named {
		severity = report.Error
	}
	for _, c := range checks {
		of := slices.DeleteFunc(slices.Clone(misses), func(m resources.Miss) bool { return m.ID != c.ID })
		if len(of) > 0 {
			found = append(found, w.ruleProblem(c.ID, of, severity))
		}
	}
	return found
}

// neverCalled reports whether the rules or a match condition of a webhook keep every request from it.
func (w entry) neverCalled(all resources.Table) bool {
	misses, named := w.misses(all)
	installable := func(m resources.Miss) bool { return m.ID == "rule-not-installed" }
	return named > 0 && len(misses) == named && !slices.ContainsFunc(misses, installable) || len(neverProblem(w)) > 0
}

// misses returns what of the rules can never match, and how many resources they name.
func (w entry) misses(all resources.Table) (misses []resources.Miss, named int) {
	for i, rule := range w.Rules {
		for _, name := range rule.Resources {
			named++
			m := all.Misses(rule, name)
			switch {
			case m == nil:
			case m.ID == "rule-wrong-scope" && w.ushers() && !w.differs(): // a rule of the policy for both scopes has a webhook for each
			// webhooks in files are called for configurations
			case m.ID == "rule-never-sent" && w.file != "" && slices.Contains(rule.APIGroups, registrationGroup):
			default:
				m.Why = fmt.Sprintf("rules[%d]: %s", i, m.Why)
				misses = append(misses, *m)
			}
		}
	}
	return misses, named
}

// ruleProblem returns the finding for what can never match for one reason. An operation that does not occur on a resource among others is
// often there for the sake of a short rule.
func (w entry) ruleProblem(id string, misses []resources.Miss, severity report.Severity) report.Finding {
	about, why := w.about(), []string(nil)
	for _, m := range misses {
		why = append(why, m.Why)
	}
	switch {
	case id == "rule-not-installed":
		return problem(id, about, "%s. The webhook is called once it is installed.", strings.Join(why, "; "))
	case id == "rule-never-sent" && severity == report.Warning && !w.ushers():
		severity = report.Info
	}
	return milder(problem(id, about, "%s. The API server never calls the webhook for it.", strings.Join(why, "; ")), severity)
}

// virtualProblem returns the finding for a rule for TokenReviews and the like if it is not known whether the API server sends them to webhooks.
func (f *snapshot) virtualProblem(w entry) (found []report.Finding) {
	for i, rule := range w.Rules {
		groups := slices.DeleteFunc(slices.Clone(rule.APIGroups), func(group string) bool { return !slices.Contains(virtualGroups, group) })
		if f.minor == 0 && len(groups) > 0 {
			found = append(found, milder(problem("rule-never-sent", w.about(), "rules[%d]: since Kubernetes 1.%d, %s of %s are sent to no webhook, and the "+
				"version of the API server is not known.", i, virtualEnd, report.List(rule.Resources), report.List(groups)), report.Warning))
		}
	}
	return found
}

// exactProblem returns the finding for a webhook with matchPolicy Exact that misses versions of what it names.
func exactProblem(w entry, all resources.Table) (found []report.Finding) {
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
	return []report.Finding{problem("match-policy-exact", w.about(), "matchPolicy is Exact, and "+
		"the rules leave out %s: a request in another version than those of the rules does not reach the webhook. Equivalent, the default, "+
		"covers all versions.", report.List(missed))}
}
