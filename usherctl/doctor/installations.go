package doctor

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/internal/selector"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
)

// installationProblems returns the findings for usher's webhooks that call several servers, and for other installations of usher that are
// called for the same requests.
func (u Usher) installationProblems(all []entry, namespaces []corev1.Namespace) (found []report.Finding) {
	var servers, calls []string
	for i, w := range all {
		if server := w.server(); w.ushers() && !slices.Contains(servers, server) {
			servers, calls = append(servers, server), append(calls, fmt.Sprintf("%s calls %s", w.Name, server))
		}
		for _, other := range all[:i] {
			if w.kind == other.kind && w.Name == other.Name && strings.HasSuffix(w.Name, ".usher.dev") && w.configuration.Name != other.configuration.Name &&
				!alike(w, other) && overlap(w, other, namespaces) {
				found = append(found, problem("registered-twice", w.about(), "%s and %s are of two installations of usher, %s and %s, and both are called "+
					"for the same requests. Leave one, or give each its own namespaces.", w.object(), other.object(), w.server(), other.server()))
			}
		}
	}
	if len(servers) > 1 {
		found = append(found, problem("usher-servers-differ", subject{entry: entry{home: u}},
			"the webhooks of usher call different servers, as after a registration that was not "+
				"completed: %s. Each has a policy of its own.", strings.Join(calls, ", ")))
	}
	return found
}

// server returns what the webhook calls, without its path.
func (w entry) server() string {
	if w.ClientConfig.URL != nil {
		if at, err := url.Parse(*w.ClientConfig.URL); err == nil {
			return at.Host
		}
	}
	return connectivity.TargetOf(w.ClientConfig).String()
}

// overlap reports whether two webhooks may be called for one request: they share a resource, and a namespace.
func overlap(a, b entry, namespaces []corev1.Namespace) bool {
	one, err := metav1.LabelSelectorAsSelector(a.NamespaceSelector)
	other, wrong := metav1.LabelSelectorAsSelector(b.NamespaceSelector)
	if err != nil || wrong != nil || sharedRule(a, b) == "" {
		return false
	}
	both := func(n corev1.Namespace) bool {
		of := labels.Set(n.Labels)
		return (a.NamespaceSelector == nil || one.Matches(of)) && (b.NamespaceSelector == nil || other.Matches(of))
	}
	return namespaces == nil || slices.ContainsFunc(namespaces, both)
}

// leftOutByName returns a line about the namespaces that usher's webhooks leave out by name, beside those that usher always leaves out. Who
// has left them out, and whether on purpose, is written nowhere.
func leftOutByName(all []entry) string {
	var names []string
	for _, w := range all {
		if w.needed == nil {
			continue
		}
		always := namesLeftOut(w.needed.NamespaceSelector)
		for _, name := range namesLeftOut(w.NamespaceSelector) {
			if !slices.Contains(always, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "usher is not called for what is in the namespaces " + strings.Join(once(names), ", ") + ", which its registration leaves out by name, as " +
		"--exclude-namespace does; whether all of them are meant cannot be told"
}

// namesLeftOut returns the namespaces that a selector leaves out by their names.
func namesLeftOut(s *metav1.LabelSelector) (names []string) {
	for _, r := range selector.Requirements(s) {
		if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn {
			names = append(names, r.Values...)
		}
	}
	return names
}
