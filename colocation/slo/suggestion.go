package slo

import (
	"maps"
	"slices"

	"usher.dev/usher/internal/nearest"
)

// warnOfKeys warns of data keys that look misspelt. Other unknown keys are ignored: third parties use the ConfigMap
// too.
func (c *Config) warnOfKeys(data map[string]string) {
	keys := Keys()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if nearest.Of(key, keys) != "" && !slices.Contains(keys, key) {
			c.warn(Warning{key, pathOf(key).String() + ": unknown" + suggestion(key, keys)})
		}
	}
}

// suggestion suggests the known name that is most similar to a misspelt one; without one, it says what happens to the
// field.
func suggestion(name string, known []string) string {
	if best := nearest.Of(name, known); best != "" {
		return "; is it " + best + "?"
	}
	return ", so without effect"
}
