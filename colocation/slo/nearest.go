package slo

import (
	"maps"
	"slices"
	"strings"
)

// warnOfKeys tells of data keys that look like misspelt ones. Others are left alone: third parties keep theirs in the ConfigMap
// too.
func (c *Config) warnOfKeys(data map[string]string) {
	keys := Keys()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if nearest(key, keys) != "" && !slices.Contains(keys, key) {
			c.warn(Warning{key, pathOf(key).String() + ": unknown" + suggestion(key, keys)})
		}
	}
}

// suggestion asks for the known name that is most like a misspelt one; if none is alike, it says what becomes of the field.
func suggestion(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return "; is it " + best + "?"
	}
	return ", so without effect"
}

// nearest is the known name that is most like a misspelt one; empty if none is alike.
func nearest(name string, known []string) (best string) {
	least := max(2, len(name)/4) + 1
	for _, candidate := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate), least); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is how many letters must be put in, left out or replaced to make b of a; limit if it is that or more.
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
