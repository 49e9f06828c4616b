package doctor

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

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
	}), grouped(all, alike, func(g []entry) report.Finding { return twins(g, broken) }), overlapProblems(all))
}

// overlapProblems returns the findings for configurations whose webhooks call the same path for the same namespaces and objects, and of whose rules
// some are the same.
func overlapProblems(all []entry) (found []report.Finding) {
	for i, w := range all {
		var others []string
		what := ""
		for _, other := range all[:i] {
			apart := w.configuration.Name != other.configuration.Name && sameCall(w, other) && !alike(w, other)
			if shared := cmp.Or(sharedRule(w, other), sharedRule(other, w)); apart && shared != "" {
				others, what = append(others, other.object()), shared
			}
		}
		if len(others) > 0 {
			found = append(found, problem("registered-twice", w.about(), "%s calls what %s also calls, %s, and the rules of both name %s: what both are "+
				"for is sent there twice. Leave it to one.", w.object(), report.List(others), pathOf(w.ClientConfig), what))
		}
	}
	return found
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
	about, others, leave, call := kept.about(), []string(nil), "Leave one.", "calls"
	removable := !broken(kept)
	for _, w := range group {
		if w.object() == kept.object() {
			continue
		}
		others, about.also = append(others, w.object()), append(about.also, w)
		removable = removable && !w.ushers() && w.file == "" && !managed(w) && answersAs(w, kept)
		if !bytes.Equal(w.ClientConfig.CABundle, kept.ClientConfig.CABundle) {
			leave = "Their caBundles differ: leave one that verifies the certificate of the server."
		}
	}
	if !removable {
		about.also = nil
	}
	if len(others) > 1 {
		call = "call"
	}
	return problem("registered-twice", about, "%s %s what %s also calls, %s, for the same requests: each is sent there %d times. %s",
		report.List(others), call, kept.object(), pathOf(kept.ClientConfig), len(group), leave)
}

// answersAs reports whether calls of two webhooks that are alike also succeed alike, as far as their configurations say.
func answersAs(w, other entry) bool {
	same := equality.Semantic.DeepEqual
	return bytes.Equal(w.ClientConfig.CABundle, other.ClientConfig.CABundle) && w.called().Injector() == other.called().Injector() &&
		same(w.MatchPolicy, other.MatchPolicy) && same(w.ReinvocationPolicy, other.ReinvocationPolicy) && same(w.SideEffects, other.SideEffects) &&
		same(w.AdmissionReviewVersions, other.AdmissionReviewVersions)
}

// managed reports whether something makes the configuration again once it is removed, such as Helm, an owner, or a GitOps controller.
func managed(w entry) bool {
	c := w.configuration
	keys := slices.Concat(slices.Collect(maps.Keys(c.Labels)), slices.Collect(maps.Keys(c.Annotations)))
	return len(c.OwnerReferences) > 0 || slices.ContainsFunc(keys,
		func(key string) bool {
			group, name, _ := strings.Cut(key, "/")
			return name == "managed-by" || name == "tracking-id" || name == "release-name" || strings.HasSuffix(group, ".fluxcd.io") ||
				strings.HasPrefix(group, "addonmanager.") || strings.HasPrefix(group, "olm.")
		})
}

// weightOf orders webhooks by what is lost with them: those that come back, of which those of usher or in files are first, then those whose
// failure refuses requests.
func weightOf(w entry) (n int) {
	if w.ushers() || w.file != "" {
		n += 2
	}
	if managed(w) {
		n++
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

// sameCall reports whether two webhooks call the same path of a server for the same namespaces and objects, as far as their rules name them.
func sameCall(w, other entry) bool {
	same := w.kind == other.kind && connectivity.TargetOf(w.ClientConfig) == connectivity.TargetOf(other.ClientConfig) &&
		pathOf(w.ClientConfig) == pathOf(other.ClientConfig) && !namedAlike(w, other)
	return same && selector.Of(w.NamespaceSelector).Equal(selector.Of(other.NamespaceSelector)) &&
		selector.Of(w.ObjectSelector).Equal(selector.Of(other.ObjectSelector)) && equality.Semantic.DeepEqual(w.MatchConditions, other.MatchConditions)
}

// alike reports whether two webhooks call the same path of a server for the same requests.
func alike(w, other entry) bool {
	return sameCall(w, other) && equality.Semantic.DeepEqual(w.Rules, other.Rules)
}
