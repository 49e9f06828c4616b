package gate

import (
	"strings"
	"testing"
)

var known = []Gate{{Name: "A", Default: true}, {Name: "B"}, {Name: "C"}}

func TestParse(t *testing.T) {
	cases := []struct{ text, on, err string }{
		{"", "A", ""},
		{"B=true", "AB", ""},
		{"A=false, B = 1 ,", "B", ""},
		{"B=true,B=false", "A", ""},
		{"Other=true,B=true", "AB", ""},
		{"Other", "", "missing bool value for Other"},
		{"Other=maybe", "", "invalid value of Other=maybe"},
		{"a=true", "", "unrecognized feature gate: a; did you mean A?; the gates are A, B, C"},
		{"Nothing=true", "", "unrecognized feature gate: Nothing; the gates are A, B, C"},
		{"!A=true", "", "unrecognized feature gate: !A"},
		{"B", "", "missing bool value for B"},
		{"B=maybe", "", "invalid value of B=maybe: must be true or false"},
		{"=true", "", "unrecognized feature gate: ;"},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			s, err := Parse(c.text, known, []Name{"Other"})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			got := ""
			for _, g := range known {
				if s.On(g.Name) {
					got += string(g.Name)
				}
				if s.On(Not(g.Name)) == s.On(g.Name) {
					t.Errorf("%s and its inverse are the same", g.Name)
				}
			}
			if warned := len(s.Warnings()) > 0; warned != strings.Contains(c.text, "Other") {
				t.Errorf("warnings: %q", s.Warnings())
			}
			if err != nil || got != c.on || !s.On("") {
				t.Errorf("on: %s, want %s; %v", got, c.on, err)
			}
		})
	}
}
