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

// checkBounds refuses ratios above the bounds of pools: Koordinator's manager writes them to nodes, and amplification-ratio
// refuses that. It warns of those that CPU normalization may raise above them, which depends on the CPU models of the nodes.
func (c sloChange) checkBounds(req *admit.Request, sources *sections.RatioSources, nodes iter.Seq2[string, map[string]string]) (problems field.ErrorList) {
	refused, warned := map[string]string{}, map[string]string{}
	check := func(node string, set map[string]string) {
		ratios := c.config.Amplification(set)
		for name, text := range ratios {
			note(refused, node, aboveBound(sources, set, name, text))
		}
		cpu, err := strconv.ParseFloat(cmp.Or(ratios["cpu"], "1"), 64)
		if most := c.config.MaxNormalization(set); err == nil && most > 1 {
			note(warned, node, aboveBound(sources, set, "cpu", fmt.Sprint(cpu*most)))
		}
	}
	check("a node without labels", nil)
	for name, set := range nodes {
		check("node "+name, set)
	}
	for _, text := range slices.Sorted(maps.Keys(refused)) {
		problems = append(problems, field.Invalid(field.NewPath("data").Key(slo.AmplificationKey), field.OmitValueType{}, refused[text]+" "+text))
	}
	for _, text := range slices.Sorted(maps.Keys(warned)) {
		req.Warnf("%s: %s %s", slo.NormalizationKey, warned[text], text)
	}
	return problems
}

// note records the first node that a text is about.
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
