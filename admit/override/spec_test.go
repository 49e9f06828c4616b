package override

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

func TestCompileOverride(t *testing.T) {
	ten := 10
	all := List{{EnforcePercent: &ten, Selector: &metav1.LabelSelector{}, Until: "2027-01-31",
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	o := all.Compile()[0]
	if o.Mode != admit.Warn || o.EnforcePercent != 10 || o.Selector != nil || o.NamespaceSelector.String() != "a=b" || o.UntilText() != "2027-01-31" {
		t.Errorf("%+v", o)
	}
}

// TestTooWide: labels of the object alone exempt nothing, and a namespaceSelector helps only if it leaves out namespaces that usher is called for.
func TestTooWide(t *testing.T) {
	names := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	const in, notIn, exists, not = metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist
	const name = "kubernetes.io/metadata.name"
	team := metav1.LabelSelectorRequirement{Key: "team", Operator: in, Values: []string{"web"}}
	both := names(name, exists)
	both.MatchExpressions = append(both.MatchExpressions, team)
	for what, c := range map[string]struct {
		spec Spec
		wide bool
	}{
		"no condition":            {Spec{}, true},
		"an empty selector":       {Spec{NamespaceSelector: &metav1.LabelSelector{}}, true},
		"any name":                {Spec{NamespaceSelector: names(name, exists)}, true},
		"all names but one":       {Spec{NamespaceSelector: names(name, notIn, "x")}, true},
		"without a label":         {Spec{NamespaceSelector: names("strict", not)}, true},
		"not with a value":        {Spec{NamespaceSelector: names("team", notIn, "web")}, true},
		"the opt-in":              {Spec{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"in": "yes"}}}, true},
		"the opt-in or others":    {Spec{NamespaceSelector: names("in", in, "yes", "no")}, true},
		"any opt-in":              {Spec{NamespaceSelector: names("in", exists)}, true},
		"for what sends anything": {Spec{Groups: []string{"system:authenticated"}, NamespaceSelector: names(name, exists)}, true},
		"a name":                  {Spec{Namespaces: []string{"shop"}}, false},
		"a name as a label":       {Spec{NamespaceSelector: names(name, in, "shop")}, false},
		"a team":                  {Spec{NamespaceSelector: names("team", in, "web")}, false},
		"any team":                {Spec{NamespaceSelector: names("team", exists)}, false},
		"a team beside any name":  {Spec{NamespaceSelector: both}, false},
		"users":                   {Spec{Users: []string{"me"}, NamespaceSelector: names(name, exists)}, false},
	} {
		t.Run(what, func(t *testing.T) {
			c.spec.Steps, c.spec.Mode, c.spec.Selector = []string{"a"}, admit.Off, &metav1.LabelSelector{MatchLabels: map[string]string{"legacy": "true"}}
			problems := List{c.spec}.CheckSteps([]string{"a"}, nil, []admit.Label{{Key: "in", Value: "yes"}}, nil, field.NewPath("overrides"))
			if len(problems) > 0 != c.wide {
				t.Errorf("%v", problems)
			}
			if text := fmt.Sprint(problems); c.wide && strings.Contains(text, "selects every namespace") != (c.spec.compile().NamespaceSelector != nil) {
				t.Errorf("it does not name the selector: %s", text)
			}
		})
	}
}

// FuzzUntil: no text causes a panic, and the end of an override reads as it was written.
func FuzzUntil(f *testing.F) {
	for _, text := range []string{"2027-01-31", "2027-01-31T18:00:00+02:00", "2027-01-31T18:00:00.5Z", "9999-12-31", "0000-01-01", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		until, err := parseUntil(text)
		if err != nil || until.Year() < 1 || until.Year() > 9999 {
			return
		}
		o := admit.Override{Until: until}
		if again, err := parseUntil(o.UntilText()); err != nil || !again.Equal(until) {
			t.Errorf("%q ends at %s, which is written as %q: %s, %v", text, until, o.UntilText(), again, err)
		}
	})
}
