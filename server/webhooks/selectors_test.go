package webhooks

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"usher.dev/usher/test/seed"
)

// TestWithOthers: usher decides about the labels that it knows, others about theirs.
func TestWithOthers(t *testing.T) {
	for _, c := range []struct{ name, needed, registered, want string }{
		{"nothing is registered", "kubernetes.io/metadata.name notin (a)", "", "kubernetes.io/metadata.name notin (a)"},
		{"the same", "kubernetes.io/metadata.name notin (a)", "kubernetes.io/metadata.name notin (a)", "kubernetes.io/metadata.name notin (a)"},
		{"ours has changed", "kubernetes.io/metadata.name notin (a,b)", "kubernetes.io/metadata.name notin (a)", "kubernetes.io/metadata.name notin (a,b)"},
		{"theirs is kept", "kubernetes.io/metadata.name notin (a,b)", "kubernetes.io/metadata.name notin (a),control-plane notin (true),x=y",
			"control-plane notin (true),kubernetes.io/metadata.name notin (a,b),x=y"},
		{"ours is gone, theirs kept", "", "usher.dev/exempt notin (true),x=y", "x=y"},
		{"all of it is gone", "", "usher.dev/exempt notin (true)", ""},
		{"our opt-in has a letter too few", "usher-in=yes", "usher-n=yes,x=y", "usher-in=yes,x=y"},
		{"our opt-in is also there misspelt", "usher-in=yes", "usehr-in=yes,usher-in=yes", "usher-in=yes"},
		{"the name of namespaces is misspelt", "kubernetes.io/metadata.name notin (a)", "kubernetes.io/metadata.nme notin (a)", "kubernetes.io/metadata.name notin (a)"},
		{"only like our opt-in", "usher-in=yes", "usher-nn1=yes", "usher-in=yes,usher-nn1=yes"},
		{"our opt-in has another value", "in=yes", "in=no", "in=yes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := withOthers(selector(t, c.needed), selector(t, c.registered))
			if selectorOf(t, got) != selectorOf(t, selector(t, c.want)) {
				t.Errorf("got %s, want %s", selectorOf(t, got), c.want)
			}
		})
	}
}

// TestWithOthersProperties: the result is stable, and selects what both usher and the others select.
func TestWithOthersProperties(t *testing.T) {
	random := seed.Random(t)
	keys := []string{corev1.LabelMetadataName, "usher.dev/exempt", "x", "y"}
	any := func() *metav1.LabelSelector {
		s := &metav1.LabelSelector{}
		for _, key := range keys {
			switch random.IntN(4) {
			case 0:
				metav1.AddLabelToSelector(s, key, fmt.Sprint(random.IntN(2)))
			case 1:
				s.MatchExpressions = append(s.MatchExpressions, notIn(key, fmt.Sprint(random.IntN(2))))
			}
		}
		return s
	}
	for range 2000 {
		needed, registered := any(), any()
		merged := withOthers(needed, registered)
		if again := withOthers(needed, merged); selectorOf(t, again) != selectorOf(t, merged) {
			t.Fatalf("%s and %s: first %s, then %s", selectorOf(t, needed), selectorOf(t, registered), selectorOf(t, merged), selectorOf(t, again))
		}
		set := labels.Set{}
		for _, key := range keys {
			set[key] = fmt.Sprint(random.IntN(2))
		}
		if !matches(t, needed, set) && matches(t, merged, set) {
			t.Fatalf("%s selects %s, which the needed %s does not", selectorOf(t, merged), set, selectorOf(t, needed))
		}
	}
}

// selector reads the text of a selector; "" is none.
func selector(t *testing.T, text string) *metav1.LabelSelector {
	t.Helper()
	if text == "" {
		return nil
	}
	requirements, err := labels.ParseToRequirements(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &metav1.LabelSelector{}
	for _, r := range requirements {
		if r.Operator() == selection.Equals {
			metav1.AddLabelToSelector(s, r.Key(), r.Values().List()[0])
		} else {
			s.MatchExpressions = append(s.MatchExpressions, notIn(r.Key(), r.Values().List()...))
		}
	}
	return s
}

func selectorOf(t *testing.T, s *metav1.LabelSelector) string {
	t.Helper()
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		return ""
	}
	return compiled.String()
}

func matches(t *testing.T, s *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return s == nil || compiled.Matches(set)
}
