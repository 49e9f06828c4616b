package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/api"
)

// boundPod is a Pod of which only what says its node and its requests is decoded.
type boundPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName       string                       `json:"nodeName"`
		InitContainers []requestingContainer        `json:"initContainers"`
		Containers     []requestingContainer        `json:"containers"`
		Overhead       api.ResourceList             `json:"overhead"`
		Resources      *corev1.ResourceRequirements `json:"resources"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

type requestingContainer struct {
	Name          string                         `json:"name"`
	Resources     corev1.ResourceRequirements    `json:"resources"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
}

// podRequest is what one pod takes of its node; without a node, of none.
type podRequest struct {
	node     string
	requests corev1.ResourceList // cpu and memory
}

// keepRequest keeps what a pod asks its node for. A pod that is not bound, or has ended, asks for nothing.
func keepRequest(o *boundPod) any {
	if o.Spec.NodeName == "" || o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
		return &podRequest{}
	}
	all := api.PodRequest(&corev1.PodSpec{
		InitContainers: containersOf(o.Spec.InitContainers), Containers: containersOf(o.Spec.Containers),
		Overhead: corev1.ResourceList(o.Spec.Overhead), Resources: o.Spec.Resources,
	})
	kept := &podRequest{node: o.Spec.NodeName, requests: corev1.ResourceList{}}
	for _, name := range api.Amplifiable() {
		if api.Asks(all, name) {
			kept.requests[name] = all[name]
		}
	}
	return kept
}

func containersOf(list []requestingContainer) []corev1.Container {
	containers := make([]corev1.Container, len(list))
	for i, c := range list {
		containers[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return containers
}

// addTo adds a list to a sum.
func addTo(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name].DeepCopy()
		total.Add(q)
		sum[name] = total
	}
}
