package profile

import (
	"iter"
	"maps"
	"slices"
)

// Pair is a label or an annotation.
type Pair struct{ Key, Value string }

// Sorted gives a map's pairs by key: what is done in this order is done the same way each time.
func Sorted(m map[string]string) []Pair {
	pairs := make([]Pair, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, Pair{key, m[key]})
	}
	return pairs
}

// Labels are the labels of an object, as selectors want to see them. Objects have few: looking through a list is as fast
// as a map, and much cheaper to make.
type Labels []Pair

// LabelsOf collects labels from wherever they are, as maps.All and admit.Meta.AllLabels give them.
func LabelsOf(all iter.Seq2[string, string]) Labels {
	var l Labels
	for key, value := range all {
		l = append(l, Pair{key, value})
	}
	return l
}

// Has tells whether a label is there.
func (l Labels) Has(key string) bool {
	_, ok := l.Lookup(key)
	return ok
}

// Get is the value of a label; empty if it is missing.
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Lookup is the value of a label, and whether it is there.
func (l Labels) Lookup(key string) (value string, ok bool) {
	for _, pair := range l {
		if pair.Key == key {
			return pair.Value, true
		}
	}
	return "", false
}
