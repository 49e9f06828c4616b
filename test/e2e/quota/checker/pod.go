package checker

import (
	"bytes"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// decodePod decodes a pod from etcd.
func decodePod(value []byte) (*corev1.Pod, error) {
	value, ok := bytes.CutPrefix(value, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("a pod is not stored as protobuf: %.40q", value)
	}
	var wrapper runtime.Unknown
	var pod corev1.Pod
	if err := wrapper.Unmarshal(value); err != nil {
		return nil, err
	}
	return &pod, pod.Unmarshal(wrapper.Raw)
}

// count returns what a pod counts for: nothing once it has ended. If an API server is killed between the two writes of
// a deletion, a pod with an expired grace period remains; it does not count either. The pods of the tests have no init
// containers except sidecars, no resources of their own as a whole, and no overhead.
func count(pod *corev1.Pod) (one amounts) {
	over := pod.DeletionTimestamp != nil && (pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || over {
		return amounts{}
	}
	allocated, enacted := node(pod, pod.Spec.Containers, pod.Status.ContainerStatuses)
	sidecars, enactedSidecars := node(pod, pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	holds := max(allocated+sidecars, enacted+enactedSidecars)
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		one.asked += c.Resources.Requests.Cpu().MilliValue()
	}
	one.held = max(one.asked, holds)
	one.claimed = one.held
	if infeasible, current := refused(pod); infeasible {
		one.held, one.claimed = holds, holds
		if !current { // the node may still carry out what the spec asks now
			one.claimed = max(one.asked, holds)
		}
	}
	return one
}

// node returns what the node of a pod has allocated to its containers, and what they have. Where a node has not
// reported, the spec counts; of a resize that it has refused, nothing does.
func node(pod *corev1.Pod, containers []corev1.Container, statuses []corev1.ContainerStatus) (allocated, enacted int64) {
	infeasible, _ := refused(pod)
	for _, c := range containers {
		var of corev1.ContainerStatus
		for _, s := range statuses {
			if s.Name == c.Name {
				of = s
			}
		}
		switch {
		case of.AllocatedResources != nil:
			allocated += of.AllocatedResources.Cpu().MilliValue()
		case !infeasible:
			allocated += c.Resources.Requests.Cpu().MilliValue()
		}
		if of.Resources != nil {
			enacted += of.Resources.Requests.Cpu().MilliValue()
		}
	}
	return allocated, enacted
}

// refused reports whether the node calls a resize infeasible, and whether that is the resize to the current spec.
func refused(pod *corev1.Pod) (infeasible, current bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible {
			requested := pod.Generation
			if pod.DeletionTimestamp != nil {
				requested-- // the deletion, which requests nothing
			}
			return true, c.ObservedGeneration >= requested
		}
	}
	return false, false
}
