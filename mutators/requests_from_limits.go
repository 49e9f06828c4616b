package mutators

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/config"
)

// requestsFromLimits computes the requests of containers and init containers from their limits, so that more pods fit on
// a node than their limits add up to. The rules are those of OpenShift's ClusterResourceOverride. Everything is computed
// from limits, which a second run finds unchanged, so nothing compounds. What the LimitRanges of the namespace ask for
// is kept, because the API server checks it after usher. So is a pod with resources as a whole: those of its containers
// must fit into them.
func requestsFromLimits(policy RequestsFromLimits, ask admit.Questions) admit.Mutator[admit.Pod] {
	classes := compileClasses(policy)
	return admit.Mutator[admit.Pod]{
		Name:  "requests-from-limits",
		Doc:   "sets requests to percentages of limits, and cpu limits in proportion to memory; without limits nothing changes",
		Needs: []string{admit.CollectionNamespaces, admit.CollectionLimitRanges},
		Section: config.Section[RequestsFromLimits]{Name: "requestsFromLimits", Check: RequestsFromLimits.check,
			Tag: `doc:"how the requests of containers follow from their limits; the first entry that selects a pod applies"`},
		Idle: len(policy) == 0,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			if !newPod(req) {
				req.Explain("requests are set when a pod is created")
				return nil
			}
			if whole := pod.Resources(); whole.Requests().Exists() || whole.Limits().Exists() {
				req.Explain("spec.resources bounds the containers together, so their resources are left alone")
				return nil
			}
			class, err := classOf(classes, req, pod, ask)
			if err != nil || class == nil {
				return err
			}
			bounds, err := limitRangeBounds(req.Namespace, ask)
			if err != nil {
				return err
			}
			for c := range pod.Containers() {
				class.apply(c, bounds)
			}
			return nil
		},
	}
}

// requestsClass is a compiled RequestsClass.
type requestsClass struct {
	RequestsClass
	selects config.CompiledSelection
	floors  corev1.ResourceList
}

func compileClasses(policy RequestsFromLimits) (all []*requestsClass) {
	for _, class := range policy {
		compiled := &requestsClass{class, class.Selection.Compile(), smallest()}
		for name, text := range class.Floors {
			compiled.floors[name], _ = quantity.ParseQuantity(text) // Check has refused what is no quantity
		}
		all = append(all, compiled)
	}
	return all
}

// smallest are the floors of a class that names none: a request or limit of zero would mean that there is none.
func smallest() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(1, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(1<<20, resource.BinarySI)}
}

// classOf returns the first class that selects a pod; nil if there is none.
func classOf(classes []*requestsClass, req *admit.Request, pod *admit.Pod, ask admit.Questions) (*requestsClass, error) {
	namespace := ask.LabelsOfNamespace(req)
	for _, class := range classes {
		matches, err := class.selects.Matches(pod.Selectable(), namespace)
		if err != nil || matches {
			return class, err
		}
	}
	req.Explain("no entry of requestsFromLimits selects the pod in namespace %s", req.Namespace)
	return nil, nil
}

// apply sets what follows from the limits of a container: first the cpu limit, then the requests.
func (class *requestsClass) apply(c *admit.Container, bounds containerBounds) {
	limits, requests := c.Resources().Limits(), c.Resources().Requests()
	if !limits.Exists() {
		return
	}
	if memory, found := limits.Get(corev1.ResourceMemory); found && memory.Sign() > 0 && class.LimitCPUToMemoryPercent > 0 {
		cpu := largest(quantity.CPUForMemory(memory, class.LimitCPUToMemoryPercent), smallest()[corev1.ResourceCPU])
		limits.Set(corev1.ResourceCPU, bounds.limit(corev1.ResourceCPU, cpu))
	}
	for _, r := range []struct {
		name    corev1.ResourceName
		percent int
	}{{corev1.ResourceCPU, class.CPURequestToLimitPercent}, {corev1.ResourceMemory, class.MemoryRequestToLimitPercent}} {
		limit, found := limits.Get(r.name)
		request, requested := requests.Get(r.name)
		switch {
		case !found || limit.Sign() <= 0:
		case r.percent > 0:
			share := quantity.Share(limit, r.percent, r.name)
			requests.Set(r.name, bounds.request(r.name, largest(share, class.floors[r.name]), limit))
		case requested && request.Cmp(limit) > 0: // the limit was computed
			requests.Set(r.name, limit)
		}
	}
}

// containerBounds holds what the LimitRanges of a namespace ask of each container. A resource that is missing is not
// bounded.
type containerBounds struct{ min, max, ratio corev1.ResourceList }

// limitRangeBounds returns the strictest bounds of all LimitRanges of a namespace.
func limitRangeBounds(namespace string, ask admit.Questions) (containerBounds, error) {
	bounds := containerBounds{corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}}
	ranges, err := ask.LimitRanges(namespace)
	if err != nil {
		return bounds, fmt.Errorf("namespace %s: %w", namespace, err)
	}
	for _, limitRange := range ranges {
		for _, item := range limitRange.Spec.Limits {
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			tighten(bounds.min, item.Min, +1)
			tighten(bounds.max, item.Max, -1)
			tighten(bounds.ratio, item.MaxLimitRequestRatio, -1)
		}
	}
	return bounds, nil
}

// tighten keeps of two bounds the larger one if sign is positive, else the smaller one.
func tighten(bounds, others corev1.ResourceList, sign int) {
	for name, other := range others {
		if now, found := bounds[name]; !found || other.Cmp(now)*sign > 0 {
			bounds[name] = other
		}
	}
}

// limit returns a limit within the bounds.
func (b containerBounds) limit(name corev1.ResourceName, q resource.Quantity) resource.Quantity {
	if most, bounded := b.max[name]; bounded && q.Cmp(most) > 0 {
		return most
	}
	return largest(q, b.min[name])
}

// request returns a request within the bounds for a container with the given limit, which it never exceeds.
func (b containerBounds) request(name corev1.ResourceName, q, limit resource.Quantity) resource.Quantity {
	q = largest(q, b.min[name])
	if ratio, bounded := b.ratio[name]; bounded && ratio.Sign() > 0 {
		q = largest(q, quantity.DividedUp(limit, ratio, name))
	}
	if q.Cmp(limit) > 0 {
		return limit
	}
	return q
}

func largest(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}
