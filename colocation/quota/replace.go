package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The limits of an annotation with replacements. It is applied to every list of every container, and any user may write
// it. No pod has that many resources, and no resource has a name that long.
const maxReplacements, maxResourceName = 100, 320

// replacement renames a resource, or removes it if to is empty.
type replacement struct{ from, to corev1.ResourceName }

// replace returns the spec with the resources of containers, init containers and overhead renamed according to the text
// of api.AnnotationReplaceResources. The spec itself is shared and stays unchanged.
func replace(spec *corev1.PodSpec, text string) *corev1.PodSpec {
	replacements := parseReplacements(text)
	if len(replacements) == 0 {
		return spec
	}
	changed := *spec
	changed.InitContainers = replaceIn(spec.InitContainers, replacements)
	changed.Containers = replaceIn(spec.Containers, replacements)
	changed.Overhead = replaced(spec.Overhead, replacements)
	return &changed
}

// parseReplacements parses "from:to,erase:". Entries without exactly one colon or without a name are ignored.
func parseReplacements(text string) (list []replacement) {
	for entry := range strings.SplitSeq(text, ",") {
		from, to, ok := strings.Cut(entry, ":")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !ok || strings.Contains(to, ":") || from == "" || len(from) > maxResourceName || len(to) > maxResourceName {
			continue
		}
		if list = append(list, replacement{corev1.ResourceName(from), corev1.ResourceName(to)}); len(list) == maxReplacements {
			break
		}
	}
	return list
}

func replaceIn(containers []corev1.Container, replacements []replacement) []corev1.Container {
	changed := slices.Clone(containers)
	for i := range changed {
		r := &changed[i].Resources
		r.Requests, r.Limits = replaced(r.Requests, replacements), replaced(r.Limits, replacements)
	}
	return changed
}

// replaced applies replacements to a list, in their order. An entry that already exists under the new name is not
// overwritten.
func replaced(list corev1.ResourceList, replacements []replacement) corev1.ResourceList {
	changed := maps.Clone(list)
	for _, r := range replacements {
		amount, has := changed[r.from]
		if _, taken := changed[r.to]; !has || taken {
			continue
		}
		delete(changed, r.from)
		if r.to != "" {
			changed[r.to] = renamed(r.from, amount)
		}
	}
	return changed
}

// renamed returns an amount under its new name. Under another name, cpu is counted in whole milli-cores, as for
// batch-cpu: 2 becomes 2k.
func renamed(from corev1.ResourceName, amount resource.Quantity) resource.Quantity {
	if from == corev1.ResourceCPU {
		return *resource.NewQuantity(amount.MilliValue(), resource.DecimalSI)
	}
	return amount
}
