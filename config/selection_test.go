package config

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestSelection: both selectors must match, and the namespace is asked for only when it decides.
func TestSelection(t *testing.T) {
	selector := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	without := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "DoesNotExist"}}}
	pod, namespace := labels.Set{"app": "web"}, map[string]string{"team": "a"}
	cases := []struct {
		name      string
		selection Selection
		want      bool
		asks      bool
	}{
		{"neither", Selection{}, true, false},
		{"both empty", Selection{&metav1.LabelSelector{}, &metav1.LabelSelector{}}, true, false},
		{"pod matches", Selection{nil, selector("app", "web")}, true, false},
		{"pod does not", Selection{nil, selector("app", "db")}, false, false},
		{"namespace matches", Selection{selector("team", "a"), nil}, true, true},
		{"namespace does not", Selection{selector("team", "b"), nil}, false, true},
		{"both match", Selection{selector("team", "a"), selector("app", "web")}, true, true},
		{"only the namespace matches: no question", Selection{selector("team", "a"), selector("app", "db")}, false, false},
		{"only the pod matches", Selection{selector("team", "b"), selector("app", "web")}, false, true},
		{"expression", Selection{without, nil}, false, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			asked := false
			got, err := c.selection.Compile().Matches(pod, func() (map[string]string, error) {
				asked = true
				return namespace, nil
			})
			if err != nil || got != c.want || asked != c.asks {
				t.Errorf("%v, %v, asked: %v; want %v, asked: %v", got, err, asked, c.want, c.asks)
			}
		})
	}
}

func TestSelectionReturnsTheErrorOfTheQuestion(t *testing.T) {
	notReady := errors.New("not ready")
	s := Selection{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}.Compile()
	if !s.NeedsNamespace() {
		t.Error("the selection does not need the namespace")
	}
	got, err := s.Matches(labels.Set{}, func() (map[string]string, error) { return nil, notReady })
	if got || !errors.Is(err, notReady) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSelectionCheck(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	problems := Selection{bad, bad}.Check(field.NewPath("sidecars").Index(0))
	text := problems.ToAggregate().Error()
	for _, want := range []string{"sidecars[0].namespaceSelector.matchExpressions[0].operator", "sidecars[0].podSelector.matchExpressions[0].operator"} {
		if !strings.Contains(text, want) {
			t.Errorf("no problem at %s: %s", want, text)
		}
	}
	if problems := (Selection{}).Check(nil); len(problems) > 0 {
		t.Error(problems)
	}
}
