package admit

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestCompileOverride(t *testing.T) {
	ten := 10
	all := Overrides{{EnforcePercent: &ten, Selector: &metav1.LabelSelector{}, Until: "2027-01-31",
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	o := all.Compile()[0]
	if o.Mode != Warn || o.EnforcePercent != 10 || o.Selector != nil || o.NamespaceSelector.String() != "a=b" || o.UntilText() != "2027-01-31" {
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
		spec OverrideSpec
		wide bool
	}{
		"no condition":            {OverrideSpec{}, true},
		"an empty selector":       {OverrideSpec{NamespaceSelector: &metav1.LabelSelector{}}, true},
		"any name":                {OverrideSpec{NamespaceSelector: names(name, exists)}, true},
		"all names but one":       {OverrideSpec{NamespaceSelector: names(name, notIn, "x")}, true},
		"without a label":         {OverrideSpec{NamespaceSelector: names("strict", not)}, true},
		"not with a value":        {OverrideSpec{NamespaceSelector: names("team", notIn, "web")}, true},
		"the opt-in":              {OverrideSpec{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"in": "yes"}}}, true},
		"the opt-in or others":    {OverrideSpec{NamespaceSelector: names("in", in, "yes", "no")}, true},
		"any opt-in":              {OverrideSpec{NamespaceSelector: names("in", exists)}, true},
		"for what sends anything": {OverrideSpec{Groups: []string{"system:authenticated"}, NamespaceSelector: names(name, exists)}, true},
		"a name":                  {OverrideSpec{Namespaces: []string{"shop"}}, false},
		"a name as a label":       {OverrideSpec{NamespaceSelector: names(name, in, "shop")}, false},
		"a team":                  {OverrideSpec{NamespaceSelector: names("team", in, "web")}, false},
		"any team":                {OverrideSpec{NamespaceSelector: names("team", exists)}, false},
		"a team beside any name":  {OverrideSpec{NamespaceSelector: both}, false},
		"users":                   {OverrideSpec{Users: []string{"me"}, NamespaceSelector: names(name, exists)}, false},
	} {
		t.Run(what, func(t *testing.T) {
			c.spec.Steps, c.spec.Mode, c.spec.Selector = []string{"a"}, Off, &metav1.LabelSelector{MatchLabels: map[string]string{"legacy": "true"}}
			problems := Overrides{c.spec}.CheckSteps([]string{"a"}, nil, []Label{{Key: "in", Value: "yes"}}, nil, field.NewPath("overrides"))
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
		o := Override{Until: until}
		if again, err := parseUntil(o.UntilText()); err != nil || !again.Equal(until) {
			t.Errorf("%q ends at %s, which is written as %q: %s, %v", text, until, o.UntilText(), again, err)
		}
	})
}
