package admit

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
