package slo

import (
	"iter"
	"maps"
	"slices"
)

// Amplification returns the ratios by which the resources of a node with the given labels are amplified: decimal
// numbers of at least 1, by resource name. It is nil if amplification is not enabled for the node. The first entry that
// selects the node overrides the cluster's strategy. Ratios outside the allowed range are left out.
func (c *Config) Amplification(labels map[string]string) map[string]string {
	return ratiosOf(c.layersFor(AmplificationKey, labels))
}

// EntryRatios yields each entry of resource-amplification-config, as messages name it, and the ratios that nodes of the entry get.
func (c *Config) EntryRatios() iter.Seq2[string, map[string]string] {
	return func(yield func(string, map[string]string) bool) {
		s := c.section(AmplificationKey)
		if s == nil {
			return
		}
		for i := s.first; i < s.last; i++ {
			if !yield(c.label(i), ratiosOf([]map[string]any{s.clusterOf(s.tree), c.entries[i].tree})) {
				return
			}
		}
	}
}

// MaxNormalization returns the largest ratio by which Koordinator's manager multiplies the ratio of cpu of a node with the
// given labels: that of some CPU model, 1 if CPU normalization is not enabled for the node.
func (c *Config) MaxNormalization(labels map[string]string) float64 {
	most := 1.0
	layers := c.layersFor(NormalizationKey, labels)
	if !enabled(layers) {
		return most
	}
	for _, layer := range layers {
		most = max(most, largest(layer))
	}
	return most
}

// largest returns the largest number in a tree of objects.
func largest(value any) (most float64) {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	case map[string]any:
		for _, inner := range v {
			most = max(most, largest(inner))
		}
	}
	return most
}

// ratiosOf returns the ratios of a cluster's strategy and an entry's; nil if amplification is not enabled.
func ratiosOf(layers []map[string]any) map[string]string {
	if !enabled(layers) {
		return nil
	}
	ratios := map[string]any{}
	for _, layer := range layers {
		maps.Copy(ratios, down(layer, []string{"resourceAmplificationRatio"}))
	}
	return ratioTexts(ratios)
}

// enabled reports whether the last strategy that says so enables a key.
func enabled(layers []map[string]any) (enabled bool) {
	for _, layer := range layers {
		if on, given := layer["enable"].(bool); given {
			enabled = on
		}
	}
	return enabled
}

// layersFor returns the cluster's strategy of a key and that of the first entry that selects a node.
func (c *Config) layersFor(key string, labels map[string]string) (layers []map[string]any) {
	s := c.section(key)
	if s == nil {
		return nil
	}
	layers = []map[string]any{s.clusterOf(s.tree)}
	selected := c.selecting(nil, labels)
	if i := slices.IndexFunc(selected, func(i int) bool { return i >= s.first && i < s.last }); i >= 0 {
		layers = append(layers, c.entries[selected[i]].tree)
	}
	return layers
}

func ratioTexts(all map[string]any) map[string]string {
	texts := map[string]string{}
	for name, value := range all {
		var found finding
		(ratios{}).check(&found, nil, map[string]any{name: value})
		if n, ok := quantityText(value); ok && found.count() == 0 {
			texts[name] = n
		}
	}
	return texts
}
