package admit

// Ratchet says which objects of a request a rule selects: the one under review, and the stored one. An object that is
// absent is not selected. What a rule finds wrong in a stored object may stay; an update may only not add to it.
type Ratchet struct{ Is, Was bool }

// MayStay reports whether a violation may stay. unchanged says that the update leaves what the rule judges as it is. What the
// rule did not select before is no violation that may stay.
func (r Ratchet) MayStay(unchanged bool) bool { return r.Was && unchanged }

// Either reports whether the rule selects one of the objects, so that no update of labels ends it.
func (r Ratchet) Either() bool { return r.Is || r.Was }

// Both reports whether the rule selects both objects, so that no update of labels begins it.
func (r Ratchet) Both() bool { return r.Is && r.Was }
