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

// replaceInStatus is replace for the status of the pod. In the status of the pod as a whole, resources that the spec
// requests for the pod as a whole keep their names, as they do in the spec.
func replaceInStatus(spec *corev1.PodSpec, status *corev1.PodStatus, text string) *corev1.PodStatus {
	replacements, changed := parseReplacements(text), *status
	changed.InitContainerStatuses = replaceInEach(status.InitContainerStatuses, replacements)
	changed.ContainerStatuses = replaceInEach(status.ContainerStatuses, replacements)
	if spec.Resources != nil {
		others := slices.DeleteFunc(replacements, func(r replacement) bool {
			_, whole := spec.Resources.Requests[r.from]
			return whole
		})
		changed.AllocatedResources = replaced(status.AllocatedResources, others)
		changed.Resources = replacedRequests(status.Resources, others)
	}
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

func replaceInEach(statuses []corev1.ContainerStatus, replacements []replacement) []corev1.ContainerStatus {
	changed := slices.Clone(statuses)
	for i := range changed {
		s := &changed[i]
		s.AllocatedResources = replaced(s.AllocatedResources, replacements)
		s.Resources = replacedRequests(s.Resources, replacements)
	}
	return changed
}

// replacedRequests applies replacements to the requests among the requirements.
func replacedRequests(of *corev1.ResourceRequirements, replacements []replacement) *corev1.ResourceRequirements {
	if of == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: replaced(of.Requests, replacements)}
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
