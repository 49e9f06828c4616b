package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// Namespaces is the collection of all namespaces. It is declared here because steps of every suite may read it.
var Namespaces = &Collection[*admit.Namespace]{
	Name: admit.CollectionNamespaces, Kind: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: "namespaces",
	MetaOnly: true, Keep: Keep(func(o *metav1.PartialObjectMetadata) *admit.Namespace {
		delete(o.Annotations, corev1.LastAppliedConfigAnnotation) // kubectl's copy of the whole object
		return &admit.Namespace{Labels: o.Labels, Annotations: o.Annotations, Deleting: o.DeletionTimestamp != nil}
	}),
}

// Namespace returns a namespace's labels. In files, a namespace may be missing; then known is false. In a watched
// cluster it must exist, because the API server admits nothing into a missing namespace: if it has not arrived yet, the
// error wraps admit.ErrNotReady.
func (r Reader) Namespace(name string) (labels map[string]string, known bool, err error) {
	found, known, err := Namespaces.Expect(r.Now(), name)
	if known {
		labels = found.Labels
	}
	return labels, known, err
}

// NamespaceMeta returns what is kept of a namespace. It fails like Namespace.
func (r Reader) NamespaceMeta(name string) (is admit.Namespace, known bool, err error) {
	found, known, err := Namespaces.Expect(r.Now(), name)
	if known {
		is = *found
	}
	return is, known, err
}

// Questions returns the questions that steps of the core suite may ask.
func (r Reader) Questions() admit.Questions {
	return admit.Questions{Namespace: r.NamespaceMeta, LimitRanges: r.LimitRanges}
}

// NamedNamespace is like Namespace for a name that need not exist: known is false for a missing one, also in a watched
// cluster.
func (r Reader) NamedNamespace(name string) (labels map[string]string, known bool, err error) {
	found, known, err := Namespaces.Find(r.Now(), name)
	if known {
		labels = found.Labels
	}
	return labels, known, err
}

// NamespaceDeleting reports whether a namespace is being deleted, which a namespace that files lack is not. It fails like
// Namespace.
func (r Reader) NamespaceDeleting(name string) (bool, error) {
	s := r.Now()
	found, known, err := Namespaces.Find(s, name)
	if err == nil && !known && s.api {
		err = notArrived(Namespaces.Name, name)
	}
	return known && found.Deleting, err
}
