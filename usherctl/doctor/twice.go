package doctor

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
)

// twiceProblems returns the findings for webhooks that are registered twice, and for names that a configuration has twice.
func twiceProblems(all []entry) (found []report.Finding) {
	for i, w := range all {
		for _, other := range all[:i] {
			switch {
			case w.kind == other.kind && w.configuration.Name == other.configuration.Name && w.Name == other.Name:
				found = append(found, milder(problem("registered-twice", w.about(), "%s %s has the webhook %s twice, and the API server refuses such a "+
					"configuration.", w.kind, w.configuration.Name, w.Name), report.Error))
			case w.repeats(other):
				found = append(found, problem("registered-twice", w.about(), "%s calls what %s also calls, %s, for the same requests: each is "+
					"sent there twice. Remove one.", w.object(), other.object(), pathOf(w.ClientConfig)))
			}
		}
	}
	return found
}

// repeats reports whether two webhooks call the same path of a server for the same requests.
func (w entry) repeats(other entry) bool {
	same := w.kind == other.kind && connectivity.TargetOf(w.ClientConfig) == connectivity.TargetOf(other.ClientConfig) &&
		pathOf(w.ClientConfig) == pathOf(other.ClientConfig)
	return same && equality.Semantic.DeepEqual(w.Rules, other.Rules) && equality.Semantic.DeepEqual(w.NamespaceSelector, other.NamespaceSelector) &&
		equality.Semantic.DeepEqual(w.ObjectSelector, other.ObjectSelector) && equality.Semantic.DeepEqual(w.MatchConditions, other.MatchConditions)
}
