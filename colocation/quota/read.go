package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/colocation/api"
)

// PodOf reads a pod: its metadata, its spec, of which nodeName, containers, init containers, overhead and resources count, and its phase.
func PodOf(meta *metav1.ObjectMeta, spec *corev1.PodSpec, phase corev1.PodPhase) *Pod {
	label, labelled := meta.Labels[api.LabelQuotaName]
	p := &Pod{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, Node: spec.NodeName, Label: label, Labelled: labelled,
		Ended: phase == corev1.PodSucceeded || phase == corev1.PodFailed, Gone: goneAt(meta),
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

// goneAt is the end of a pod's grace as Kubernetes' own quota counts it: the time of deletion, which has the grace in it already, and
// the grace once more, in which its node may tell of its end.
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
