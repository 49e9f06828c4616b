package collections

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// Nodes holds the labels of all nodes.
var Nodes = &cluster.Collection[map[string]string]{
	Name: api.CollectionNodes, Kind: corev1.SchemeGroupVersion.WithKind("Node"), Resource: "nodes",
	MetaOnly: true, Keep: cluster.Keep(func(o *metav1.PartialObjectMetadata) map[string]string { return o.Labels }),
}

// NodeLabels returns the labels of a node. known is false if the node does not exist, or nodes have not been listed.
func (q Questions) NodeLabels(name string) (labels map[string]string, known bool) {
	labels, known, err := Nodes.Find(q.Now(), name)
	return labels, answered(err) && known
}

// AllNodes returns the names and labels of all nodes, in no particular order.
func (q Questions) AllNodes() (iter.Seq2[string, map[string]string], error) {
	all, err := Nodes.All(q.Now())
	return all.Each(), err
}
