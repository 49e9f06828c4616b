// Package labelindex finds the label selectors that may match an object by the labels that the object has, so that all others cost
// nothing.
package labelindex

import "iter"

// Requirement is what a selector requires of one label key: that the object has it, with any value or with one of some.
type Requirement struct {
	Key    string
	Any    bool     // any value will do
	Values []string // else one of these, each named once
}

// Index holds selectors by their numbers. Each is filed once, under a requirement that it cannot match without. The zero Index is
// empty; an Index that is not added to may be read by many at once.
type Index struct {
	values map[label][]int  // requires this label
	keys   map[string][]int // requires a label of this key, with any value
	filed  map[string][]int // all that are filed under a key, by its value or not
	always []int            // requires nothing
}

type label struct{ key, value string }

// New returns the index of selectors, each given as its number and what it requires; one without requirements may match any object.
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

// file files a selector under the requirement that it shares with the fewest others.
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

// rarest returns the requirement that is shared with the fewest others, the first of them; nil if there is none. A key with any value
// is the last resort.
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

// Empty reports whether there is no selector at all.
func (x *Index) Empty() bool { return len(x.filed)+len(x.always) == 0 }

// Always returns the selectors that may match without any label. The caller must not change them.
func (x *Index) Always() []int { return x.always }

// Append appends the selectors that may match because of a label. All that may match an object are those of Always and of each of its
// labels, each selector once, in no order.
func (x *Index) Append(into []int, key, value string) []int {
	into = append(into, x.keys[key]...)
	return append(into, x.values[label{key, value}]...)
}

// Near yields the selectors that are filed where an object that fulfils a requirement may find them, some of them more than once.
// With those of Always, what is near one of its requirements is all that a selector may overlap with on its own labels.
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
