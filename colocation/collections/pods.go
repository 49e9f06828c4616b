package collections

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// Pods holds the keys of the labels and annotations of all pods.
var Pods = &cluster.Collection[*PodKeys]{
	Name: api.CollectionPods, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true,
	MetaOnly: true, Keep: cluster.Keep(keepKeys).Or(func() cluster.Shortcut[*PodKeys] { return newKeySets().read }),
}

// PodKeys holds the sorted keys of a pod's labels and annotations. Most pods share them with others.
type PodKeys struct{ Labels, Annotations []string }

// keepKeys returns what is kept of a pod.
func keepKeys(o *metav1.PartialObjectMetadata) *PodKeys {
	return &PodKeys{slices.Sorted(maps.Keys(o.Labels)), slices.Sorted(maps.Keys(withoutLastApplied(o.Annotations)))}
}

// Pod returns the keys of the labels and annotations of a stored pod. With files, known is false for a missing pod. With a
// watch, the caller knows that the pod exists, because it is being bound, so the error wraps admit.ErrNotReady.
func (q Questions) Pod(namespace, name string) (labels, annotations []string, known bool, err error) {
	found, known, err := Pods.Expect(q.Now(), namespace+"/"+name)
	if known {
		labels, annotations = found.Labels, found.Annotations
	}
	return labels, annotations, known, err
}

// keySets remembers the keys that pods have, by their JSON.
type keySets struct {
	mu   sync.Mutex
	json []byte // of the pod that is read
	sets map[string]*PodKeys
}

func newKeySets() *keySets { return &keySets{sets: map[string]*PodKeys{}} }

// read returns what is kept of a pod. It is a cluster.Shortcut.
func (k *keySets) read(o cluster.Sent, decode func() (*PodKeys, bool)) (*PodKeys, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	json := appendKeys(appendKeys(k.json[:0], o.Metadata.Member("labels")), o.Metadata.Member("annotations"))
	if len(json) > maxShape {
		return nil, false
	}
	k.json = json
	keys, known := k.sets[string(json)]
	if !known {
		if keys, known = decode(); !known {
			return nil, false
		}
		if len(k.sets) >= maxShapes {
			clear(k.sets)
		}
		k.sets[string(json)] = keys
	}
	return keys, true
}

func appendKeys(to []byte, object document.Raw) []byte {
	for all := object.Children(); all.More(); {
		next := all.Next()
		to = append(next.AppendKey(to), partEnds)
	}
	return append(to, listEnds)
}
