package doctor

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/internal/resources"
	"usher.dev/usher/usherctl/report"
)

// TestMisspells: what differs as typing errors do, and not as the names of a series.
func TestMisspells(t *testing.T) {
	for _, pair := range [][2]string{{"enable", "enabled"}, {"enabledd", "enabled"}, {"enabeld", "enabled"}, {"Enabled", "enabled"}, {"usher.dev/injct", "usher.dev/inject"}} {
		if is := misspells(pair[0], pair[1]); is != (pair[0] != "enabeld") { // two letters are wrong
			t.Errorf("%s: %v", pair, is)
		}
	}
	for _, pair := range [][2]string{{"enabled", "enabled"}, {"disabled", "enabled"}, {"team-a", "team-b"}, {"1-20-1", "1-20-2"}, {"rev1", "rev12"}, {"on", "no"}, {"b", "c"}, {"", "enabled"}} {
		if misspells(pair[0], pair[1]) {
			t.Error(pair)
		}
	}
}

// TestNearMisses: a label that is misspelt is named with the right one. Which of the two is wrong, no command decides.
func TestNearMisses(t *testing.T) {
	space := func(name, key, value string) corev1.Namespace {
		n := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}}}
		withName(&n)
		return n
	}
	right, enable, key := space("right", "door", "enabled"), space("shop", "door", "enable"), space("bank", "dooor", "enabled")
	own := ushers(func(w *entry) { w.NamespaceSelector = labelled("door", "enabled") })
	own.needed = &own.Hook
	changed := ushers(func(w *entry) { w.NamespaceSelector = labelled("door", "enable") })
	changed.needed = &own.Hook
	leavesOut := ushers(func(w *entry) {
		w.NamespaceSelector = labelled("door", "enabled")
		w.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"right"}}}
	})
	leavesOut.needed = &own.Hook
	foreign := hook(func(w *entry) { w.NamespaceSelector = labelled("door", "enabled") })
	leavesOutItself := hook(func(w *entry) {
		w.NamespaceSelector = labelled("door", "enabled")
		w.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "door", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"enabled"}}}
	})
	for _, c := range []struct {
		name       string
		w          entry
		namespaces []corev1.Namespace
		want       string
		severity   report.Severity
		says       []string
	}{
		{"right", own, []corev1.Namespace{right}, "", "", nil},
		{"none", own, []corev1.Namespace{space("shop", "a", "b")}, "selector-no-namespace", report.Warning, []string{"\nkubectl get namespaces --show-labels"}},
		{"a contradiction", leavesOutItself, []corev1.Namespace{space("shop", "a", "b")}, "selector-no-namespace", report.Warning, []string{"in two ways that exclude each other"}},
		{"a value", own, []corev1.Namespace{space("a", "b", "c"), enable}, "selector-no-namespace", report.Warning,
			[]string{"shop have door=enable, and the selector asks for door=enabled. Did you mean that?", "\nkubectl get namespaces --show-labels"}},
		{"a value beside a right one", own, []corev1.Namespace{right, enable}, "selector-near-miss", report.Warning, []string{"\nkubectl get namespaces --show-labels"}},
		{"a key beside a right one", own, []corev1.Namespace{right, key}, "selector-near-miss", report.Warning, []string{"dooor=enabled", "namespaces bank"}},
		{"the label, and left out by name", leavesOut, []corev1.Namespace{space("apps", "a", "b"), right}, "selector-no-namespace", report.Warning,
			[]string{"Namespace right has the label door=enabled, and the selector also leaves out kubernetes.io/metadata.name", "\nkubectl get namespaces --show-labels"}},
		{"a selector of usher", changed, []corev1.Namespace{right}, "selector-no-namespace", report.Warning, []string{"\nkubectl edit validatingwebhookconfiguration usher"}},
		{"a selector of others", hook(func(w *entry) { w.NamespaceSelector = labelled("door", "enable") }), []corev1.Namespace{right}, "selector-no-namespace", report.Warning,
			[]string{"the selector asks for door=enable. Did you mean", "\nkubectl edit validatingwebhookconfiguration c"}},
		{"of others, beside a right one", foreign, []corev1.Namespace{right, enable}, "selector-near-miss", report.Warning, []string{"\nkubectl get namespaces --show-labels"}},
		{"an opt-in of others", foreign, []corev1.Namespace{space("a", "b", "c")}, "selector-no-namespace", report.Info, []string{"\nkubectl get namespaces --show-labels"}},
		{"a name that no namespace has", hook(func(w *entry) { w.NamespaceSelector = labelled(corev1.LabelMetadataName, "shops") }), []corev1.Namespace{enable}, "selector-no-namespace", report.Warning, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := namespaceProblems(c.w, c.namespaces, resources.BuiltIn())
			expectOne(t, found, c.want, c.says...)
			if len(found) > 0 && found[0].Severity != c.severity {
				t.Error(found[0].Severity)
			}
		})
	}
	two := nearMisses(own.NamespaceSelector, []corev1.Namespace{enable, space("bank", "door", "enable"), key})
	if len(two) != 2 || !slices.Equal(two[0].namespaces, []string{"shop", "bank"}) || two[1].is != "dooor=enabled" {
		t.Errorf("%+v", two)
	}
}
