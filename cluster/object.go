package cluster

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/api"
	"usher.dev/usher/quota/ledger"
)

// item is an object as a source brings it: a little metadata, which the reflector wants, and what is kept. It is thrown away when
// the kept part is in a table.
type item struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	kept any
	err  error // why there is nothing to keep
	// What of a quota is not kept, but told: the annotations ledger.Annotation and api.AnnotationQuotaChildRequest.
	record, childRequest string
}

// DeepCopyObject gives the item itself: nobody changes one.
func (i *item) DeepCopyObject() runtime.Object { return i }

// key is the name, after the namespace and a slash if there is one.
func (i *item) key() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

// What is kept of objects that no other package has a type for.
type (
	namespace struct {
		labels   map[string]string
		deleting bool
	}
	pod struct {
		labels, annotations map[string]string
	}
)

// reservation is an api.Reservation that does not look into its template, which is large, and which the API server does not
// check.
type reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		api.ReservationSpec `json:",inline"`
		Template            unread `json:"template"`
	} `json:"spec"`
	Status api.ReservationStatus `json:"status"`
}

// unread is JSON that nobody looks at.
type unread struct{}

// UnmarshalJSON does nothing.
func (*unread) UnmarshalJSON([]byte) error { return nil }

// keep makes a decode function from one that takes what is kept out of a decoded T. The names of JSON members are case-sensitive,
// as they are for the API server.
func keep[T any, P interface {
	*T
	metav1.Object
}](keep func(P) any) func([]byte) (*item, error) {
	return func(raw []byte) (*item, error) {
		object := P(new(T))
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
			return unreadable(raw, err)
		}
		i, err := itemOf(object)
		if err == nil {
			i.kept = keep(object)
		}
		return i, err
	}
}

// unreadable gives the item of an object that does not decode, if its name at least can be read.
func unreadable(raw []byte, cause error) (*item, error) {
	var head metav1.PartialObjectMetadata
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return nil, cause
	}
	i, err := itemOf(&head)
	if err == nil {
		i.err = cause
	}
	return i, err
}

// itemOf gives an item with nothing in it but the metadata that tables and the reflector use.
func itemOf(object metav1.Object) (*item, error) {
	if object.GetName() == "" {
		return nil, errors.New("metadata.name is missing")
	}
	annotations := object.GetAnnotations()
	return &item{
		ObjectMeta: metav1.ObjectMeta{
			Name: object.GetName(), Namespace: object.GetNamespace(), ResourceVersion: object.GetResourceVersion(),
		},
		record: annotations[ledger.Annotation], childRequest: annotations[api.AnnotationQuotaChildRequest],
	}, nil
}

// nameAndKeys is the metadata that is kept of custom resources.
func nameAndKeys(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.GetName(), Labels: o.GetLabels(), Annotations: withoutLastApplied(o.GetAnnotations())}
}

// withoutLastApplied drops kubectl's copy of the whole object.
func withoutLastApplied(annotations map[string]string) map[string]string {
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}
