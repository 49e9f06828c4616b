package slo

import (
	"maps"
	"slices"
)

// Amplification returns the ratios by which the resources of a node with the given labels are amplified: decimal
// numbers of at least 1, by resource name. It is nil if amplification is not enabled for the node. The first entry that
// selects the node overrides the cluster's strategy. Ratios outside the allowed range are left out.
func (c *Config) Amplification(labels map[string]string) map[string]string {
	s := c.section(AmplificationKey)
	if s == nil {
		return nil
	}
	layers := []map[string]any{s.tree}
	selected := c.selecting(nil, labels)
	if i := slices.IndexFunc(selected, func(i int) bool { return i >= s.first && i < s.last }); i >= 0 {
		layers = append(layers, c.entries[selected[i]].tree)
	}
	enabled, ratios := false, map[string]any{}
	for _, layer := range layers {
		if on, given := layer["enable"].(bool); given {
			enabled = on
		}
		maps.Copy(ratios, down(layer, []string{"resourceAmplificationRatio"}))
	}
	if !enabled {
		return nil
	}
	return ratioTexts(ratios)
}

func ratioTexts(ratios map[string]any) map[string]string {
	texts := map[string]string{}
	for name, value := range ratios {
		var found finding
		ratio.check(&found, nil, value)
		if n, _ := quantityText(value); found.count() == 0 {
			texts[name] = n
		}
	}
	return texts
}
