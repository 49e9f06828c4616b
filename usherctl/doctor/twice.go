package doctor

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"usher.dev/usher/internal/selector"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
)

// twiceProblems returns the findings for webhooks that are registered twice, and for names that a configuration has twice: one for each group.
// broken reports whether the API server cannot call a webhook.
func twiceProblems(all []entry, broken func(entry) bool) (found []report.Finding) {
	return slices.Concat(grouped(all, namedAlike, func(g []entry) report.Finding {
		return milder(problem("registered-twice", g[0].about(), "%s %s has the webhook %s twice, and the API server refuses such a "+
			"configuration.", g[0].kind, g[0].configuration.Name, g[0].Name), report.Error)
	}), grouped(all, alike, func(g []entry) report.Finding { return twins(g, broken) }))
}

// grouped returns a finding for each group of webhooks that are the same in a way.
func grouped(all []entry, same func(a, b entry) bool, finding func([]entry) report.Finding) (found []report.Finding) {
	for len(all) > 0 {
		var group, rest []entry
		for i, w := range all {
			if i == 0 || same(all[0], w) {
				group = append(group, w)
			} else {
				rest = append(rest, w)
			}
		}
		if len(group) > 1 {
			found = append(found, finding(group))
		}
		all = rest
	}
	return found
}

// twins returns the finding for webhooks that call the same path for the same requests. Those are to be removed whose removal changes no answer:
// the one that is left can be called and has the same settings, or refuses what the others would let pass.
func twins(group []entry, broken func(entry) bool) report.Finding {
	kept := slices.MaxFunc(group, func(a, b entry) int { return weightOf(a) - weightOf(b) })
	about, others, leave := kept.about(), []string(nil), "Leave one."
	removable := !broken(kept)
	for _, w := range group {
		if w.object() == kept.object() {
			continue
		}
		others, about.also = append(others, w.object()), append(about.also, w)
		removable = removable && !w.ushers() && w.file == "" && answersAs(w, kept)
		if !bytes.Equal(w.ClientConfig.CABundle, kept.ClientConfig.CABundle) {
			leave = "Their caBundles differ: leave one that verifies the certificate of the server."
		}
	}
	if !removable {
		about.also = nil
	}
	return problem("registered-twice", about, "%s call what %s also calls, %s, for the same requests: each is sent there %d times. %s",
		report.List(others), kept.object(), pathOf(kept.ClientConfig), len(group), leave)
}

// answersAs reports whether calls of two webhooks that are alike also succeed alike, as far as their configurations say.
func answersAs(w, other entry) bool {
	same := equality.Semantic.DeepEqual
	return bytes.Equal(w.ClientConfig.CABundle, other.ClientConfig.CABundle) && w.called().Injector() == other.called().Injector() &&
		same(w.MatchPolicy, other.MatchPolicy) && same(w.ReinvocationPolicy, other.ReinvocationPolicy) && same(w.SideEffects, other.SideEffects) &&
		same(w.AdmissionReviewVersions, other.AdmissionReviewVersions)
}

// weightOf orders webhooks by what is lost with them: those of usher or in files, which come back, then those whose failure refuses requests.
func weightOf(w entry) (n int) {
	if w.ushers() || w.file != "" {
		n += 2
	}
	if w.fails() {
		n += 4
	}
	return n
}

// namedAlike reports whether two webhooks of a configuration have the same name.
func namedAlike(w, other entry) bool {
	return w.kind == other.kind && w.configuration.Name == other.configuration.Name && w.Name == other.Name
}

// alike reports whether two webhooks call the same path of a server for the same requests.
func alike(w, other entry) bool {
	same := w.kind == other.kind && connectivity.TargetOf(w.ClientConfig) == connectivity.TargetOf(other.ClientConfig) &&
		pathOf(w.ClientConfig) == pathOf(other.ClientConfig) && !namedAlike(w, other)
	return same && equality.Semantic.DeepEqual(w.Rules, other.Rules) && selector.Of(w.NamespaceSelector).Equal(selector.Of(other.NamespaceSelector)) &&
		selector.Of(w.ObjectSelector).Equal(selector.Of(other.ObjectSelector)) && equality.Semantic.DeepEqual(w.MatchConditions, other.MatchConditions)
}
