package slo

import "iter"

// index finds the entries that may select a node without asking all. Each is filed once, under one of the labels that its
// selector requires.
type index struct {
	values map[label][]int  // requires this label
	keys   map[string][]int // requires a label of this key
	filed  map[string][]int // all that are filed under a key, by its value or not
	always []int            // requires none
}

type label struct{ key, value string }

func newIndex(entries []entry) index {
	x := index{values: map[label][]int{}, keys: map[string][]int{}, filed: map[string][]int{}}
	popular := map[label]int{}
	for i := range entries {
		for _, c := range entries[i].selector {
			for _, value := range c.values {
				popular[label{c.key, value}]++
			}
		}
	}
	for i := range entries {
		if entries[i].selector != nil {
			x.file(i, entries[i].selector, popular, len(entries))
		}
	}
	return x
}

// file files an entry under the requirement that it shares with the fewest others.
func (x *index) file(i int, s selector, popular map[label]int, all int) {
	c := rarest(s, popular, all)
	if c == nil {
		x.always = append(x.always, i)
		return
	}
	x.filed[c.key] = append(x.filed[c.key], i)
	if c.except {
		x.keys[c.key] = append(x.keys[c.key], i)
		return
	}
	for _, value := range c.values {
		at := label{c.key, value}
		x.values[at] = append(x.values[at], i)
	}
}

// rarest is the requirement of a selector that it shares with the fewest others; nil if it has none.
func rarest(s selector, popular map[label]int, all int) (best *constraint) {
	least := 0
	for i := range s {
		c := &s[i]
		if c.absent {
			continue
		}
		shared := all // a key with any value is the last resort
		if !c.except {
			shared = 0
			for _, value := range c.values {
				shared = max(shared, popular[label{c.key, value}])
			}
		}
		if best == nil || shared < least {
			best, least = c, shared
		}
	}
	return best
}

// candidates appends the entries that may select a node, in no order and each once.
func (x *index) candidates(into []int, labels map[string]string) []int {
	into = append(into, x.always...)
	for key, value := range labels {
		into = append(into, x.keys[key]...)
		into = append(into, x.values[label{key, value}]...)
	}
	return into
}

// near gives the entries that may overlap with a selector on its own labels, some of them more than once.
func (x *index) near(s selector) iter.Seq[int] {
	return func(yield func(int) bool) {
		if !each(x.always, yield) {
			return
		}
		for i := range s {
			c := &s[i]
			filed := x.keys[c.key]
			if c.except {
				filed = x.filed[c.key]
			}
			if !each(filed, yield) {
				return
			}
			for _, value := range c.values {
				if !c.except && !each(x.values[label{c.key, value}], yield) {
					return
				}
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
