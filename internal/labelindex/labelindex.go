// Package labelindex finds the label selectors that may match an object by the labels of the object, so that all other
// selectors cost nothing.
package labelindex

import "iter"

// Requirement is a requirement of a selector on one label key: any value, or one of several.
type Requirement struct {
	Key    string
	Any    bool     // any value matches
	Values []string // otherwise one of these, without duplicates
}

// Index holds selectors, identified by numbers. Each is filed once, under a requirement without which it cannot match.
// The zero Index is empty. Concurrent reads are safe.
type Index struct {
	values map[label][]int  // by label: selectors that require it
	keys   map[string][]int // by key: selectors that require any value
	filed  map[string][]int // by key: all selectors filed under the key, with or without a value
	always []int            // selectors without requirements
}

type label struct{ key, value string }

// New returns the index of selectors, given as pairs of number and requirements. A selector without requirements may
// match any object.
func New(selectors iter.Seq2[int, []Requirement]) Index {
	x := Index{values: map[label][]int{}, keys: map[string][]int{}, filed: map[string][]int{}}
	popular := map[label]int{}
	for _, requirements := range selectors {
		for _, r := range requirements {
			for _, value := range r.Values {
				popular[label{r.Key, value}]++
			}
		}
	}
	for n, requirements := range selectors {
		x.file(n, requirements, popular)
	}
	return x
}

// file adds a selector under the requirement that it shares with the fewest others.
func (x *Index) file(n int, requirements []Requirement, popular map[label]int) {
	r := rarest(requirements, popular)
	if r == nil {
		x.always = append(x.always, n)
		return
	}
	x.filed[r.Key] = append(x.filed[r.Key], n)
	if r.Any {
		x.keys[r.Key] = append(x.keys[r.Key], n)
	}
	for _, value := range r.Values {
		at := label{r.Key, value}
		x.values[at] = append(x.values[at], n)
	}
}

// rarest returns the first of the requirements that are shared with the fewest others; nil if there are none. A key
// with any value is the last choice.
func rarest(requirements []Requirement, popular map[label]int) (best *Requirement) {
	least := 0
	for i := range requirements {
		r := &requirements[i]
		shared := 0
		for _, value := range r.Values {
			shared = max(shared, popular[label{r.Key, value}])
		}
		if best == nil || best.Any && !r.Any || best.Any == r.Any && shared < least {
			best, least = r, shared
		}
	}
	return best
}

// Empty reports whether there are no selectors at all.
func (x *Index) Empty() bool { return len(x.filed)+len(x.always) == 0 }

// Always returns the selectors that may match without any label. The caller must not modify the slice.
func (x *Index) Always() []int { return x.always }

// Append appends the selectors that may match because of a label. The candidates for an object are those of Always and
// of each of its labels, each selector once, in no particular order.
func (x *Index) Append(into []int, key, value string) []int {
	into = append(into, x.keys[key]...)
	return append(into, x.values[label{key, value}]...)
}

// Near yields the selectors filed under keys and values that satisfy a requirement, possibly several times. Together
// with Always, the results for all requirements of a selector include every selector that can overlap with it on its
// own labels.
func (x *Index) Near(r Requirement) iter.Seq[int] {
	return func(yield func(int) bool) {
		if r.Any {
			each(x.filed[r.Key], yield)
			return
		}
		if !each(x.keys[r.Key], yield) {
			return
		}
		for _, value := range r.Values {
			if !each(x.values[label{r.Key, value}], yield) {
				return
			}
		}
	}
}

func each(numbers []int, yield func(int) bool) bool {
	for _, n := range numbers {
		if !yield(n) {
			return false
		}
	}
	return true
}
