package profile

import (
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
