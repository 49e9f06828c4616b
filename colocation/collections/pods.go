package collections

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// Pods are the labels and annotations of all pods.
var Pods = &cluster.Collection[*PodMeta]{
	Name: api.CollectionPods, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true,
	MetaOnly: true, Keep: cluster.Keep(func(o *metav1.PartialObjectMetadata) *PodMeta {
		return &PodMeta{o.Labels, withoutLastApplied(o.Annotations)}
	}),
}

// PodMeta is what is kept of a pod.
type PodMeta struct{ Labels, Annotations map[string]string }

// Pod returns a stored pod's labels and annotations. In files, a pod that is not there is not known; a watched one that is asked for
// exists, as for its binding, so that the error wraps admit.ErrNotReady.
func (q Questions) Pod(namespace, name string) (labels, annotations map[string]string, known bool, err error) {
	found, known, err := Pods.Expect(q.Now(), namespace+"/"+name)
	if known {
		labels, annotations = found.Labels, found.Annotations
	}
	return labels, annotations, known, err
}
