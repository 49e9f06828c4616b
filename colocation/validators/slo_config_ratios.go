package validators

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/slo"
)

// checkBounds refuses changed ratios above the bounds of pools: Koordinator's manager writes them to nodes, and amplification-ratio
// refuses that. It warns of those that only nodes to come would get, and of those that CPU normalization may raise above the
// bounds, which depends on the CPU models of the nodes.
func (c sloChange) checkBounds(req *admit.Request, sources *sections.RatioSources,
	nodes iter.Seq2[string, map[string]string]) (problems field.ErrorList) {
	refused, later, normalized := map[string]string{}, map[string]string{}, map[string]string{}
	check := func(node string, set, above map[string]string) {
		ratios := c.config.Amplification(set)
		for name, text := range ratios {
			note(above, node, aboveBound(sources, set, name, text))
		}
		cpu, err := strconv.ParseFloat(cmp.Or(ratios["cpu"], "1"), 64)
		if most := c.config.MaxNormalization(set); err == nil && most > 1 {
			note(normalized, node, aboveBound(sources, set, "cpu", fmt.Sprint(cpu*most)))
		}
	}
	unlabelled := refused // the example of all nodes if there are none yet
	for name, set := range nodes {
		check("node "+name, set, refused)
		unlabelled = later
	}
	check("a node without labels", nil, unlabelled)
	if c.changed(slo.AmplificationKey) {
		for _, text := range slices.Sorted(maps.Keys(refused)) {
			problems = append(problems, field.Invalid(field.NewPath("data").Key(slo.AmplificationKey), field.OmitValueType{}, refused[text]+" "+text))
		}
		if len(refused) == 0 {
			c.noteEntries(later, sources)
		}
		warnOfRatios(req, slo.AmplificationKey, later)
	}
	warnOfRatios(req, slo.NormalizationKey, normalized)
	return problems
}

// noteEntries records the ratios of entries that no pool allows: nodes that will join get them.
func (c sloChange) noteEntries(later map[string]string, sources *sections.RatioSources) {
	for entry, ratios := range c.config.EntryRatios() {
		for name, text := range ratios {
			bound, bounded := sources.LargestBound(corev1.ResourceName(name))
			if ratio, err := quantity.ParseRatioNumber(text); err == nil && bounded && ratio.Above(bound) {
				note(later, "a node of "+entry, fmt.Sprintf("gets %s %s; no pool allows more than %s, and /validate-node refuses it", name, text, bound))
			}
		}
	}
}

func warnOfRatios(req *admit.Request, key string, of map[string]string) {
	for _, text := range slices.Sorted(maps.Keys(of)) {
		req.Warnf("%s: %s %s", key, of[text], text)
	}
}

// note records the first node or entry that a text is about.
func note(nodes map[string]string, node, text string) {
	if first, is := nodes[text]; text != "" && (!is || node < first) {
		nodes[text] = node
	}
}

// aboveBound says that a ratio is too large for nodes with the given labels; "" if it is not.
func aboveBound(sources *sections.RatioSources, set labels.Set, name, text string) string {
	bound, limit := boundOf(sources, set, corev1.ResourceName(name))
	if ratio, err := quantity.ParseRatioNumber(text); err != nil || !bound.above(ratio) {
		return ""
	}
	return fmt.Sprintf("gets %s %s; %s", name, text, limit)
}
