package review

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"

	"usher.dev/usher/usherctl/requests"
)

// refusedByRanges returns why the plug-in LimitRanger of an API server refuses a new object: a pod or a PersistentVolumeClaim that
// has the defaults of the LimitRanges of its Namespace.
func refusedByRanges(raw []byte, ranges []*corev1.LimitRange) (problems []string) {
	var is metav1.TypeMeta
	if len(ranges) == 0 || requests.Decode(raw, &is) != nil {
		return nil
	}
	for _, part := range partsOf(is.Kind, raw) {
		for _, r := range ranges {
			for _, item := range r.Spec.Limits {
				if item.Type == part.of {
					problems = append(problems, rangeCheck{part, item, "LimitRange " + r.Name}.problems()...)
				}
			}
		}
	}
	return problems
}

// rangePart is a container, a pod or a claim, whose resources LimitRanges bound.
type rangePart struct {
	of               corev1.LimitType
	at               string
	requests, limits corev1.ResourceList
}

// partsOf returns what LimitRanges bound in an object: in a pod each container, and all together.
func partsOf(kind string, raw []byte) (parts []rangePart) {
	if kind == claimKind.Kind {
		var claim corev1.PersistentVolumeClaim
		if requests.Decode(raw, &claim) == nil {
			parts = append(parts, rangePart{corev1.LimitTypePersistentVolumeClaim, "spec.resources", claim.Spec.Resources.Requests, nil})
		}
		return parts
	}
	var pod corev1.Pod
	if kind != podKind.Kind || requests.Decode(raw, &pod) != nil {
		return nil
	}
	for _, list := range []struct {
		name string
		all  []corev1.Container
	}{{"containers", pod.Spec.Containers}, {"initContainers", pod.Spec.InitContainers}} {
		for i, c := range list.all {
			parts = append(parts, rangePart{corev1.LimitTypeContainer, fmt.Sprintf("spec.%s[%d].resources", list.name, i), c.Resources.Requests,
				c.Resources.Limits})
		}
	}
	how := podresource.PodResourcesOptions{ExcludeOverhead: true}
	return append(parts, rangePart{corev1.LimitTypePod, "spec.containers[*].resources", podresource.PodRequests(&pod, how),
		podresource.PodLimits(&pod, how)})
}

// rangeCheck is one part and one item of a LimitRange that is for it.
type rangeCheck struct {
	rangePart
	item corev1.LimitRangeItem
	by   string
}

func (c rangeCheck) problems() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(c.item.Min)) {
		all = append(all, c.least(name, c.item.Min[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.item.Max)) {
		all = append(all, c.most(name, c.item.Max[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.item.MaxLimitRequestRatio)) {
		all = append(all, c.ratio(name, c.item.MaxLimitRequestRatio[name])...)
	}
	return all
}

// least checks a minimum: there must be a request, and neither it nor a limit may be less.
func (c rangeCheck) least(name corev1.ResourceName, bound resource.Quantity) []string {
	request, requested := c.requests[name]
	limit, limited := c.limits[name]
	switch rule := fmt.Sprintf("%s demands at least %s for each %s", c.by, &bound, c.of); {
	case !requested:
		return c.problem("requests", name, "is missing, and "+rule)
	case request.Cmp(bound) < 0:
		return c.problem("requests", name, fmt.Sprintf("is %s, and %s", &request, rule))
	case limited && limit.Cmp(bound) < 0:
		return c.problem("limits", name, fmt.Sprintf("is %s, and %s", &limit, rule))
	}
	return nil
}

// most checks a maximum: there must be a limit, for claims a request, and neither may be more.
func (c rangeCheck) most(name corev1.ResourceName, bound resource.Quantity) []string {
	request, requested := c.requests[name]
	limit, limited := c.limits[name]
	claim := c.of == corev1.LimitTypePersistentVolumeClaim
	switch rule := fmt.Sprintf("%s allows at most %s for each %s", c.by, &bound, c.of); {
	case claim && !requested:
		return c.problem("requests", name, "is missing, and "+rule)
	case !claim && !limited:
		return c.problem("limits", name, "is missing, and "+rule)
	case limited && limit.Cmp(bound) > 0:
		return c.problem("limits", name, fmt.Sprintf("is %s, and %s", &limit, rule))
	case requested && request.Cmp(bound) > 0:
		return c.problem("requests", name, fmt.Sprintf("is %s, and %s", &request, rule))
	}
	return nil
}

// ratio checks the maximum of limit divided by request; both must be there. Claims have no limits, and no ratio.
func (c rangeCheck) ratio(name corev1.ResourceName, bound resource.Quantity) []string {
	if c.of == corev1.LimitTypePersistentVolumeClaim {
		return nil
	}
	request, limit := c.requests[name], c.limits[name]
	rule := fmt.Sprintf("%s allows a limit of at most %s times the request for each %s", c.by, &bound, c.of)
	switch {
	case request.IsZero():
		return c.problem("requests", name, "is missing or 0, and "+rule)
	case limit.IsZero():
		return c.problem("limits", name, "is missing or 0, and "+rule)
	case ratioOf(limit, request) > float64(bound.MilliValue()):
		return c.problem("limits", name, fmt.Sprintf("is %s with a request of %s, and %s", &limit, &request, rule))
	}
	return nil
}

// ratioOf returns a thousand times the ratio of two quantities, rounded as the plug-in rounds it.
func ratioOf(limit, request resource.Quantity) float64 {
	if limit.Value() > resource.MaxMilliValue || request.Value() > resource.MaxMilliValue {
		return float64(limit.Value()) / float64(request.Value()) * 1000
	}
	return float64(limit.MilliValue()) / float64(request.MilliValue()) * 1000
}

func (c rangeCheck) problem(list string, name corev1.ResourceName, what string) []string {
	return []string{fmt.Sprintf("%s.%s[%s]: %s", c.at, list, name, what)}
}
