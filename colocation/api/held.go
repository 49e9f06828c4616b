package api

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"usher.dev/usher/admit/quantity"
)

// HeldRequest returns PodRequest by the status of the pod, as the scheduler computes it: the largest of what the spec
// requests, what the node has allocated and what the containers were given; only of the last two while the node calls
// the resize infeasible. It returns nil if the spec requests the same. Devices allocated by DRA do not count.
func HeldRequest(spec *corev1.PodSpec, status *corev1.PodStatus) corev1.ResourceList {
	if !resizing(spec, status) {
		return nil
	}
	pod := &corev1.Pod{Spec: *spec, Status: *status}
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = knownStatuses(spec, status), nil
	held := request(pod, podresource.PodResourcesOptions{
		UseStatusResources: true,
		// The status of a pod as a whole includes its overhead, and exists even if the spec has no requests for the whole
		// pod. The statuses of the containers are sufficient then.
		InPlacePodLevelResourcesVerticalScalingEnabled: podresource.IsPodLevelRequestsSet(pod),
	})
	for name, amount := range held {
		if amount.Sign() < 0 { // not written by a node
			held[name] = resource.Quantity{}
		}
	}
	if asked := PodRequest(spec); quantity.EqualAmounts(asked, held) {
		return nil
	}
	return held
}

// Unreported reports whether a container that requests resources has no allocation in the status, or the pod has none
// though the status says what the pod as a whole was given.
func Unreported(spec *corev1.PodSpec, status *corev1.PodStatus) bool {
	if len(status.ContainerStatuses)+len(status.InitContainerStatuses) > maxStatuses {
		return true // perhaps
	}
	if spec.Resources != nil && status.Resources != nil && status.AllocatedResources == nil {
		return true
	}
	return unallocated(spec.Containers, status) || unallocated(spec.InitContainers, status)
}

// unallocated reports whether a container that requests resources has no allocation in the status.
func unallocated(containers []corev1.Container, status *corev1.PodStatus) bool {
	for i := range containers {
		c := &containers[i]
		if one := statusOf(status, c.Name); len(c.Resources.Requests) > 0 && (one == nil || one.AllocatedResources == nil) {
			return true
		}
	}
	return false
}

// maxStatuses is the number of containers' statuses that may be searched for each container.
const maxStatuses = 100

// InfeasibleResize returns the condition by which the node of a pod calls its resize infeasible; nil if it does not.
func InfeasibleResize(status *corev1.PodStatus) *corev1.PodCondition {
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodResizePending {
			if c.Reason == corev1.PodReasonInfeasible {
				return c
			}
			return nil
		}
	}
	return nil
}

// resizing reports whether the status may say anything else than the spec. It is fast for pods that are not being
// resized.
func resizing(spec *corev1.PodSpec, status *corev1.PodStatus) bool {
	switch {
	case InfeasibleResize(status) != nil, spec.Resources != nil && (status.Resources != nil || status.AllocatedResources != nil):
		return true
	case len(status.ContainerStatuses)+len(status.InitContainerStatuses) > maxStatuses:
		return true // perhaps
	}
	return differs(spec.Containers, status) || differs(spec.InitContainers, status)
}

// differs reports whether the status of a container says anything else than its requests.
func differs(containers []corev1.Container, status *corev1.PodStatus) bool {
	for i := range containers {
		one, asked := statusOf(status, containers[i].Name), containers[i].Resources.Requests
		if one == nil {
			continue
		}
		for _, list := range []corev1.ResourceList{one.AllocatedResources, actuated(one)} {
			if list != nil && !quantity.EqualAmounts(list, asked) {
				return true
			}
		}
	}
	return false
}

// actuated returns the requests that a container was started with or resized to; nil if they are not known.
func actuated(status *corev1.ContainerStatus) corev1.ResourceList {
	if status.Resources == nil {
		return nil
	}
	return status.Resources.Requests
}

// statusOf returns the status of a container; nil if there is none.
func statusOf(status *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// knownStatuses returns the statuses of the containers of a spec, the first of each name, so that a status with
// thousands of others is not searched for each container.
func knownStatuses(spec *corev1.PodSpec, status *corev1.PodStatus) (known []corev1.ContainerStatus) {
	unknown := map[string]bool{}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			unknown[list[i].Name] = true
		}
	}
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if unknown[list[i].Name] {
				known = append(known, list[i])
				delete(unknown, list[i].Name)
			}
		}
	}
	return known
}
