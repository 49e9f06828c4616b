package collections

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// Pods holds the labels and annotations of all pods.
var Pods = &cluster.Collection[*PodMeta]{
	Name: api.CollectionPods, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true,
	MetaOnly: true, Keep: cluster.Keep(func(o *metav1.PartialObjectMetadata) *PodMeta {
		return &PodMeta{o.Labels, withoutLastApplied(o.Annotations)}
	}),
}

// PodMeta holds the metadata that is kept of a pod.
type PodMeta struct{ Labels, Annotations map[string]string }

// Pod returns the labels and annotations of a stored pod. With files, known is false for a missing pod. With a watch,
// the caller knows that the pod exists, because it is being bound, so the error wraps admit.ErrNotReady.
func (q Questions) Pod(namespace, name string) (labels, annotations map[string]string, known bool, err error) {
	found, known, err := Pods.Expect(q.Now(), namespace+"/"+name)
	if known {
		labels, annotations = found.Labels, found.Annotations
	}
	return labels, annotations, known, err
}
