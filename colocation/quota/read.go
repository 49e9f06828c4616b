package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/colocation/api"
)

// PodOf converts a pod from its metadata, spec (nodeName, containers, init containers, overhead and resources) and
// status (phase). The status is nil for a pod that has none yet.
func PodOf(meta *metav1.ObjectMeta, spec *corev1.PodSpec, status *corev1.PodStatus) *Pod {
	if status == nil {
		status = &corev1.PodStatus{}
	}
	label, labelled := meta.Labels[api.LabelQuotaName]
	p := &Pod{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, Node: spec.NodeName, Label: label, Labelled: labelled,
		Ended: status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed, Gone: goneAt(meta),
	}
	if p.Ended {
		return p
	}
	p.Requests, p.Overhead = api.PodRequest(spec), spec.Overhead
	if text := meta.Annotations[api.AnnotationReplaceResources]; text != "" {
		replaced := replace(spec, text)
		p.Replaced, p.ReplacedOverhead = api.PodRequest(replaced), replaced.Overhead
	}
	return p
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
