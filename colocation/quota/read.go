package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/colocation/api"
)

// PodOf converts a pod from its metadata, spec (nodeName, containers, init containers, overhead and resources) and
// status (phase, conditions, and what the node has allocated and given to the containers).
func PodOf(meta *metav1.ObjectMeta, spec *corev1.PodSpec, status *corev1.PodStatus) *Pod {
	label, labelled := meta.Labels[api.LabelQuotaName]
	p := &Pod{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, Node: spec.NodeName, Label: label, Labelled: labelled,
		Ended: status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed,
	}
	special := Special{Gone: goneAt(meta)}
	if p.Ended {
		p.Special = special.orNone()
		return p
	}
	p.Requests, special.Overhead = api.PodRequest(spec), spec.Overhead
	special.Devices = devicesOf(meta.Annotations[api.AnnotationDeviceClaims])
	held := Held{Requests: api.HeldRequest(spec, status)}
	if text := meta.Annotations[api.AnnotationReplaceResources]; text != "" {
		replaced := replace(spec, text)
		special.Replaced, special.ReplacedOverhead = api.PodRequest(replaced), replaced.Overhead
		held.Replaced = api.HeldRequest(replaced, replaceInStatus(spec, status, text))
	}
	p.Special = special.orNone()
	unreported := api.Unreported(spec, status)
	p.Unreported = spec.NodeName != "" && (unreported || behind(meta, status))
	if held.Requests != nil || held.Replaced != nil {
		p.Held = &Held{Requests: held.Requests, Replaced: held.Replaced, Unsettled: unreported || unsettled(meta, status)}
		p.Held.complete(p)
	}
	return p
}

// complete sets a list that is nil, because it is the same as the spec's.
func (h *Held) complete(p *Pod) {
	if h.Requests == nil {
		h.Requests = p.Requests
	}
	if h.Replaced == nil {
		h.Replaced = p.special().Replaced
	}
}

// orNone returns a copy, or nil if nothing is set.
func (s Special) orNone() *Special {
	if s.Overhead == nil && s.Replaced == nil && s.ReplacedOverhead == nil && s.Devices == nil && s.Gone.IsZero() {
		return nil
	}
	return &s
}

// unsettled reports whether the status calls a resize infeasible, but perhaps not the one of the current spec. A node
// that does not report the generation may mean any; a node that has observed a later generation and kept the condition
// has found no other resize in it.
func unsettled(meta *metav1.ObjectMeta, status *corev1.PodStatus) bool {
	infeasible := api.InfeasibleResize(status)
	return infeasible != nil &&
		(infeasible.ObservedGeneration == 0 || max(infeasible.ObservedGeneration, status.ObservedGeneration) < requestedGeneration(meta))
}

// behind reports whether a node says that it has not observed the current spec.
func behind(meta *metav1.ObjectMeta, status *corev1.PodStatus) bool {
	return status.ObservedGeneration > 0 && status.ObservedGeneration < requestedGeneration(meta)
}

// requestedGeneration returns the generation of the last change of the spec. The deletion of a pod, its last generation,
// requests nothing.
func requestedGeneration(meta *metav1.ObjectMeta) int64 {
	if meta.DeletionTimestamp != nil {
		return meta.Generation - 1
	}
	return meta.Generation
}

// goneAt returns the end of a pod's grace period as Kubernetes' own quota computes it: the deletion timestamp, which
// already includes the grace period, plus the grace period once more, in which the node may report the end of the pod.
func goneAt(meta *metav1.ObjectMeta) time.Time {
	if meta.DeletionTimestamp == nil {
		return time.Time{}
	}
	var grace int64
	if meta.DeletionGracePeriodSeconds != nil {
		grace = *meta.DeletionGracePeriodSeconds
	}
	return meta.DeletionTimestamp.Add(time.Duration(grace) * time.Second)
}
