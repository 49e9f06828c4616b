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

// cpuRequest is the pod's request of cpu as the scheduler counts it, see api.PodRequest.
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

// onlyCPU is a container with nothing but what its request of cpu depends on.
func onlyCPU(c *admit.Container) (only corev1.Container) {
	if cpu, ok := c.Request(corev1.ResourceCPU); ok {
		only.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: cpu}
	}
	if c.Sidecar() {
		only.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	return only
}

// claim is what one part of a pod asks for of a resource.
type claim struct {
	by     string // as messages name it
	name   corev1.ResourceName
	amount resource.Quantity
	at     *field.Path
}

// claims are the amounts, other than zero, that containers, init containers and the overhead ask for.
func claims(pod *admit.Pod, names []corev1.ResourceName) iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for c := range pod.Containers() {
			for _, name := range names {
				q, ok := c.Request(name)
				if ok && !q.IsZero() && !yield(claim{fmt.Sprintf("container %q", c.Name()), name, q, c.Resources().Requests().Path(name)}) {
					return
				}
			}
		}
		for _, name := range names {
			q, ok := pod.Overhead().Get(name)
			if ok && !q.IsZero() && !yield(claim{"spec.overhead", name, q, pod.Overhead().Path(name)}) {
				return
			}
		}
	}
}

// cpuClaims are the claims of cpu that count: of the pod as a whole if it makes one.
func cpuClaims(pod *admit.Pod) iter.Seq[claim] {
	requests := pod.Resources().Requests()
	whole, ok := requests.Get(corev1.ResourceCPU)
	if !ok {
		return claims(pod, cpuName[:])
	}
	return func(yield func(claim) bool) {
		if !yield(claim{"spec.resources", corev1.ResourceCPU, whole, requests.Path(corev1.ResourceCPU)}) {
			return
		}
		if q, ok := pod.Overhead().Get(corev1.ResourceCPU); ok {
			yield(claim{"spec.overhead", corev1.ResourceCPU, q, pod.Overhead().Path(corev1.ResourceCPU)})
		}
	}
}

func firstClaim(pod *admit.Pod, names []corev1.ResourceName) (first claim, found bool) {
	for c := range claims(pod, names) {
		return c, true
	}
	return claim{}, false
}

// sameSums reports whether two pods ask for the same amounts.
func sameSums(a, b *admit.Pod, names []corev1.ResourceName) bool {
	for _, name := range names {
		var left, right resource.Quantity
		for c := range claims(a, []corev1.ResourceName{name}) {
			left.Add(c.amount)
		}
		for c := range claims(b, []corev1.ResourceName{name}) {
			right.Add(c.amount)
		}
		if left.Cmp(right) != 0 {
			return false
		}
	}
	return true
}
