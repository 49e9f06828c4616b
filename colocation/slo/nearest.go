package slo

import (
	"maps"
	"slices"
	"strings"
)

// warnOfKeys warns of data keys that look misspelt. Other unknown keys are ignored: third parties use the ConfigMap
// too.
func (c *Config) warnOfKeys(data map[string]string) {
	keys := Keys()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if nearest(key, keys) != "" && !slices.Contains(keys, key) {
			c.warn(Warning{key, pathOf(key).String() + ": unknown" + suggestion(key, keys)})
		}
	}
}

// suggestion suggests the known name that is most similar to a misspelt one; without one, it says what happens to the
// field.
func suggestion(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return "; is it " + best + "?"
	}
	return ", so without effect"
}

// nearest returns the known name that is most similar to a misspelt one; empty if none is.
func nearest(name string, known []string) (best string) {
	least := max(2, len(name)/4) + 1
	for _, candidate := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate), least); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete or replace to turn a into b, up to limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
