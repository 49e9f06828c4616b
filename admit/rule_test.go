package admit

import "testing"

func TestRatchet(t *testing.T) {
	for _, c := range []struct {
		name                               string
		ratchet                            Ratchet
		mayStay, mayStayChanged, any, both bool
	}{
		{"neither is selected", Ratchet{}, false, false, false, false},
		{"a new object, or one that the rule is new for", Ratchet{Is: true}, false, false, true, false},
		{"no longer selected", Ratchet{Was: true}, true, false, true, false},
		{"still selected", Ratchet{Is: true, Was: true}, true, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.ratchet
			if r.MayStay(true) != c.mayStay || r.MayStay(false) != c.mayStayChanged || r.Either() != c.any || r.Both() != c.both {
				t.Errorf("may stay %v, changed %v, either %v, both %v", r.MayStay(true), r.MayStay(false), r.Either(), r.Both())
			}
		})
	}
}
