package profile

import (
	"maps"
	"slices"
)

// Pair is a label or an annotation.
type Pair struct{ Key, Value string }

// Sorted returns the pairs of a map by key, for a deterministic order.
func Sorted(m map[string]string) []Pair {
	pairs := make([]Pair, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, Pair{key, m[key]})
	}
	return pairs
}
