package selector

import (
	"iter"
	"maps"
)

// Term is a label that an object must have to be selected: with any value, or with one of several.
type Term[K comparable] struct {
	Key    K
	Any    bool     // any value matches
	Values []string // otherwise one of these, without duplicates
}

// Index finds the selectors that may match an object by its labels, so that all others cost nothing. It identifies them by
// numbers, and files each once, under a term without which it cannot match. The zero Index is empty. Concurrent reads are
// safe.
type Index[K comparable] struct {
	shelves map[K]*Shelf
	always  []int // selectors without terms
}

// Shelf holds the selectors that are filed under one key. A nil Shelf is empty.
type Shelf struct {
	values map[string][]int // by a value that they ask for
	any    []int            // those that any value matches
	all    []int
}

// NewIndex returns the index of selectors, given as pairs of number and terms. A selector without terms may match any object.
func NewIndex[K comparable](selectors iter.Seq2[int, []Term[K]]) Index[K] {
	x := Index[K]{shelves: map[K]*Shelf{}}
	popular := map[K]map[string]int{}
	for _, terms := range selectors {
		for _, t := range terms {
			for _, value := range t.Values {
				if popular[t.Key] == nil {
					popular[t.Key] = map[string]int{}
				}
				popular[t.Key][value]++
			}
		}
	}
	for n, terms := range selectors {
		x.file(n, terms, popular)
	}
	return x
}

// file adds a selector under the term that it shares with the fewest others.
func (x *Index[K]) file(n int, terms []Term[K], popular map[K]map[string]int) {
	t := rarest(terms, popular)
	if t == nil {
		x.always = append(x.always, n)
		return
	}
	shelf := x.shelves[t.Key]
	if shelf == nil {
		shelf = &Shelf{values: map[string][]int{}}
		x.shelves[t.Key] = shelf
	}
	shelf.all = append(shelf.all, n)
	if t.Any {
		shelf.any = append(shelf.any, n)
		return
	}
	for _, value := range t.Values {
		shelf.values[value] = append(shelf.values[value], n)
	}
}

// rarest returns the first of the terms that are shared with the fewest others; nil if there are none. A key with any value
// is the last choice.
func rarest[K comparable](terms []Term[K], popular map[K]map[string]int) (best *Term[K]) {
	least := 0
	for i := range terms {
		t := &terms[i]
		shared := 0
		for _, value := range t.Values {
			shared = max(shared, popular[t.Key][value])
		}
		if best == nil || best.Any && !t.Any || best.Any == t.Any && shared < least {
			best, least = t, shared
		}
	}
	return best
}

// Empty reports whether there are no selectors at all.
func (x *Index[K]) Empty() bool { return len(x.shelves)+len(x.always) == 0 }

// Shelves yields the keys that selectors are filed under.
func (x *Index[K]) Shelves() iter.Seq2[K, *Shelf] { return maps.All(x.shelves) }

// Shelf returns the selectors that are filed under a key.
func (x *Index[K]) Shelf(key K) *Shelf { return x.shelves[key] }

// Always returns the selectors that may match without any label. The caller must not modify the slice.
func (x *Index[K]) Always() []int { return x.always }

// Append appends the selectors that may match because the label has a value. The candidates for an object come from
// Always and from each of its labels, each selector once, in no particular order.
func (s *Shelf) Append(into []int, value string) []int {
	if s == nil {
		return into
	}
	return append(append(into, s.any...), s.values[value]...)
}

// Candidates appends the selectors that may match labels, each once, in no particular order.
func (x *Index[K]) Candidates(into []int, labels map[K]string) []int {
	into = append(into, x.always...)
	for key, value := range labels {
		into = x.shelves[key].Append(into, value)
	}
	return into
}

// Near yields the selectors filed under keys and values that satisfy a term, possibly several times. Together with Always,
// the results for all labels that a selector names include every selector that can overlap with it on its own labels.
func (x *Index[K]) Near(t Term[K]) iter.Seq[int] {
	return func(yield func(int) bool) {
		shelf := x.shelves[t.Key]
		switch {
		case shelf == nil:
			return
		case t.Any:
			each(shelf.all, yield)
			return
		case !each(shelf.any, yield):
			return
		}
		for _, value := range t.Values {
			if !each(shelf.values[value], yield) {
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
