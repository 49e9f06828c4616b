package selector

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Constraint holds everything that a selector asks of one label.
type Constraint struct {
	Key    string
	Absent bool     // the label may be missing
	Except bool     // any value but Values is allowed
	Values []string // otherwise the allowed values, sorted
}

// Constraints is a selector with one constraint for each key, sorted by key. Nil selects nothing.
type Constraints []Constraint

// Of returns the constraints of a selector with valid expressions. They are not nil.
func Of(s *metav1.LabelSelector) Constraints {
	all := Constraints{}
	for _, r := range Requirements(s) {
		next := Only(r)
		i, found := slices.BinarySearchFunc(all, next, func(a, b Constraint) int { return strings.Compare(a.Key, b.Key) })
		if found {
			all[i] = all[i].And(next)
		} else {
			all = slices.Insert(all, i, next)
		}
	}
	return all
}

// Only returns the constraint of one part of a selector.
func Only(r metav1.LabelSelectorRequirement) Constraint {
	switch values := slices.Compact(slices.Sorted(slices.Values(r.Values))); r.Operator {
	case metav1.LabelSelectorOpIn:
		return Constraint{Key: r.Key, Values: values}
	case metav1.LabelSelectorOpNotIn:
		return Constraint{Key: r.Key, Absent: true, Except: true, Values: values}
	case metav1.LabelSelectorOpExists:
		return Constraint{Key: r.Key, Except: true}
	default: // DoesNotExist
		return Constraint{Key: r.Key, Absent: true}
	}
}

// And returns the constraint that allows what both allow for the same key.
func (c Constraint) And(d Constraint) Constraint {
	both := Constraint{Key: c.Key, Absent: c.Absent && d.Absent}
	switch {
	case c.Except && d.Except:
		both.Except = true
		both.Values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Values, d.Values))))
	case c.Except:
		both.Values = c.among(d.Values)
	default:
		both.Values = d.among(c.Values)
	}
	return both
}

// among returns the values that the constraint allows.
func (c Constraint) among(values []string) (left []string) {
	for _, value := range values {
		if c.Allows(value) {
			left = append(left, value)
		}
	}
	return left
}

// Allows reports whether the label may have a value.
func (c *Constraint) Allows(value string) bool {
	_, listed := slices.BinarySearch(c.Values, value)
	return listed != c.Except
}

// Matches reports whether labels meet the constraint.
func (c *Constraint) Matches(labels map[string]string) bool {
	value, has := labels[c.Key]
	return has && c.Allows(value) || !has && c.Absent
}

// Matches reports whether labels are selected.
func (s Constraints) Matches(labels map[string]string) bool {
	for i := range s {
		if !s[i].Matches(labels) {
			return false
		}
	}
	return s != nil
}

// Possible reports whether any labels are selected. If not, key is the label with the contradiction.
func (s Constraints) Possible() (key string, possible bool) {
	for i := range s {
		if c := &s[i]; !c.Absent && !c.Except && len(c.Values) == 0 {
			return c.Key, false
		}
	}
	return "", true
}

// Equal reports whether two selectors have the same constraints.
func (s Constraints) Equal(t Constraints) bool {
	return slices.EqualFunc(s, t, func(a, b Constraint) bool {
		return a.Key == b.Key && a.Absent == b.Absent && a.Except == b.Except && slices.Equal(a.Values, b.Values)
	})
}

// Terms returns the labels that an object must have to be selected.
func (s Constraints) Terms() (all []Term[string]) {
	for i := range s {
		if !s[i].Absent {
			all = append(all, s[i].Term())
		}
	}
	return all
}

// Term returns the constraint for objects that have the label.
func (c *Constraint) Term() Term[string] {
	if c.Except {
		return Term[string]{Key: c.Key, Any: true}
	}
	return Term[string]{Key: c.Key, Values: c.Values}
}
