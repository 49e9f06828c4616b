package collections

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/api"
)

// allocatedStatus is the part of a pod's status that quota.PodOf reads.
type allocatedStatus struct {
	Phase                 corev1.PodPhase   `json:"phase"`
	ObservedGeneration    int64             `json:"observedGeneration"`
	Conditions            []resizeCondition `json:"conditions"`
	InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
	ContainerStatuses     []containerStatus `json:"containerStatuses"`
	AllocatedResources    listText          `json:"allocatedResources"`
	Resources             *requestsText     `json:"resources"`
}

type containerStatus struct {
	Name               string       `json:"name"`
	AllocatedResources listText     `json:"allocatedResources"`
	Resources          requestsText `json:"resources"`
}

type requestsText struct {
	Requests listText `json:"requests"`
}

type resizeCondition struct {
	Type               corev1.PodConditionType `json:"type"`
	Reason             string                  `json:"reason"`
	ObservedGeneration int64                   `json:"observedGeneration"`
}

// listText is the text of a resource list in a status. It nearly always equals the text of the requests, and need not
// be decoded.
type listText string

// UnmarshalJSON keeps the text.
func (l *listText) UnmarshalJSON(data []byte) error {
	*l = listText(data)
	return nil
}

// knownLists are decoded resource lists by their texts. They are shared, and must not be modified.
type knownLists map[listText]corev1.ResourceList

// read returns the list of a text; nil if there is none, or if it does not decode, which no API server stores.
func (k knownLists) read(text listText) corev1.ResourceList {
	if text == "" {
		return nil
	}
	list, known := k[text]
	if !known {
		var read api.ResourceList
		if read.UnmarshalJSON([]byte(text)) == nil {
			list = corev1.ResourceList(read)
		}
		k[text] = list
	}
	return list
}

// status returns the status of a pod.
func (p *countedPod) status() *corev1.PodStatus {
	known := knownLists{}
	for _, list := range [][]requestingContainer{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			r := &list[i].Resources.Requests
			known[listText(r.text)] = corev1.ResourceList(r.list)
		}
	}
	status := &corev1.PodStatus{
		Phase:                 p.Status.Phase,
		ObservedGeneration:    p.Status.ObservedGeneration,
		InitContainerStatuses: known.statuses(p.Status.InitContainerStatuses),
		ContainerStatuses:     known.statuses(p.Status.ContainerStatuses),
	}
	if p.Spec.Resources != nil {
		status.AllocatedResources = known.read(p.Status.AllocatedResources)
		if p.Status.Resources != nil {
			status.Resources = &corev1.ResourceRequirements{Requests: known.read(p.Status.Resources.Requests)}
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			status.Conditions = append(status.Conditions, corev1.PodCondition{Type: c.Type, Reason: c.Reason, ObservedGeneration: c.ObservedGeneration})
		}
	}
	return status
}

func (k knownLists) statuses(list []containerStatus) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, len(list))
	for i, s := range list {
		statuses[i] = corev1.ContainerStatus{Name: s.Name, AllocatedResources: k.read(s.AllocatedResources)}
		if actuated := k.read(s.Resources.Requests); actuated != nil {
			statuses[i].Resources = &corev1.ResourceRequirements{Requests: actuated}
		}
	}
	return statuses
}
