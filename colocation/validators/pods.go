package validators

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// storedPod returns the pod that an update changes, as stored; nil on create.
func storedPod(req *admit.Request) *admit.Pod {
	if req.OldObject == nil {
		return nil
	}
	return admit.AsPod(req.OldObject)
}

// keepsAnnotation reports whether the stored pod, if there is one, has an annotation with the same text.
func keepsAnnotation(stored *admit.Pod, key, text string) bool {
	if stored == nil {
		return false
	}
	was, had := stored.Annotation(key)
	return had && was == text
}

// cpuRequest returns the pod's request of cpu as the scheduler computes it, see api.PodRequest.
func cpuRequest(pod *admit.Pod) resource.Quantity {
	var spec corev1.PodSpec
	for c := range pod.InitContainers() {
		spec.InitContainers = append(spec.InitContainers, onlyCPU(c))
	}
	for c := range pod.RegularContainers() {
		spec.Containers = append(spec.Containers, onlyCPU(c))
	}
	if whole, ok := pod.Resources().Requests().Get(corev1.ResourceCPU); ok {
		spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: whole}}
	}
	if overhead, ok := pod.Overhead().Get(corev1.ResourceCPU); ok {
		spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: overhead}
	}
	return api.PodRequest(&spec)[corev1.ResourceCPU]
}

// onlyCPU returns a container reduced to what its request of cpu depends on.
func onlyCPU(c *admit.Container) (only corev1.Container) {
	if cpu, ok := c.Request(corev1.ResourceCPU); ok {
		only.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: cpu}
	}
	if c.Sidecar() {
		only.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	return only
}

// partRequest is the request of one part of a pod for a resource.
type partRequest struct {
	by     string // the part, as named in messages
	name   corev1.ResourceName
	amount resource.Quantity
	at     *field.Path
}

// partRequests yields the non-zero requests of containers, init containers and the overhead.
func partRequests(pod *admit.Pod, names []corev1.ResourceName) iter.Seq[partRequest] {
	return func(yield func(partRequest) bool) {
		for c := range pod.Containers() {
			for _, name := range names {
				q, ok := c.Request(name)
				if !ok || q.IsZero() {
					continue
				}
				if !yield(partRequest{fmt.Sprintf("container %q", c.Name()), name, q, c.Resources().Requests().Path(name)}) {
					return
				}
			}
		}
		for _, name := range names {
			q, ok := pod.Overhead().Get(name)
			if ok && !q.IsZero() && !yield(partRequest{"spec.overhead", name, q, pod.Overhead().Path(name)}) {
				return
			}
		}
	}
}

// cpuRequests yields the effective requests of cpu: the pod-level request, if set.
func cpuRequests(pod *admit.Pod) iter.Seq[partRequest] {
	requests := pod.Resources().Requests()
	whole, ok := requests.Get(corev1.ResourceCPU)
	if !ok {
		return partRequests(pod, cpuName[:])
	}
	return func(yield func(partRequest) bool) {
		if !yield(partRequest{"spec.resources", corev1.ResourceCPU, whole, requests.Path(corev1.ResourceCPU)}) {
			return
		}
		if q, ok := pod.Overhead().Get(corev1.ResourceCPU); ok {
			yield(partRequest{"spec.overhead", corev1.ResourceCPU, q, pod.Overhead().Path(corev1.ResourceCPU)})
		}
	}
}

func firstRequest(pod *admit.Pod, names []corev1.ResourceName) (first partRequest, found bool) {
	for c := range partRequests(pod, names) {
		return c, true
	}
	return partRequest{}, false
}

// equalTotals reports whether two pods request the same totals.
func equalTotals(a, b *admit.Pod, names []corev1.ResourceName) bool {
	for _, name := range names {
		var left, right resource.Quantity
		for c := range partRequests(a, []corev1.ResourceName{name}) {
			left.Add(c.amount)
		}
		for c := range partRequests(b, []corev1.ResourceName{name}) {
			right.Add(c.amount)
		}
		if left.Cmp(right) != 0 {
			return false
		}
	}
	return true
}
