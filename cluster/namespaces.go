package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// Namespaces are all namespaces. They are declared here because steps of every suite may ask about them.
var Namespaces = &Collection[*Namespace]{
	Name: admit.CollectionNamespaces, Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: "namespaces",
	MetaOnly: true, Keep: Keep(func(o *metav1.PartialObjectMetadata) *Namespace {
		return &Namespace{Labels: o.Labels, Deleting: o.DeletionTimestamp != nil}
	}),
}

// Namespace is what is kept of a namespace.
type Namespace struct {
	Labels   map[string]string
	Deleting bool
}

// Namespace returns a namespace's labels. In files, a namespace that is not there is not known. A watched one must be there, because the
// API server admits nothing into a namespace it does not have: the error wraps admit.ErrNotReady.
func (r Reader) Namespace(name string) (labels map[string]string, known bool, err error) {
	found, known, err := Namespaces.Expect(r.Now(), name)
	if known {
		labels = found.Labels
	}
	return labels, known, err
}

// NamedNamespace is Namespace for a name that nobody vouches for: one that is not there is not known, watched or not.
func (r Reader) NamedNamespace(name string) (labels map[string]string, known bool, err error) {
	found, known, err := Namespaces.Find(r.Now(), name)
	if known {
		labels = found.Labels
	}
	return labels, known, err
}

// NamespaceDeleting reports whether a namespace is being deleted. The error is Namespace's.
func (r Reader) NamespaceDeleting(name string) (bool, error) {
	found, known, err := Namespaces.Expect(r.Now(), name)
	return known && found.Deleting, err
}
