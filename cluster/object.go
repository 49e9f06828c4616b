package cluster

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// item is an object as received from its source: the metadata that the reflector needs, and what is kept. It is dropped
// as soon as the kept part is in a table, and small because a list has as many as there are objects.
type item struct {
	key         string // the name, preceded by the namespace and a slash if there is one
	version     string // the resourceVersion
	kept        any
	err         error             // why the object could not be decoded
	annotations map[string]string // see Object
	beside      *item             // the same object as the next collection of its stream keeps it
}

// GetObjectKind returns no kind, which no reader of items asks for.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// GetObjectMeta returns the metadata that the reflector reads.
func (i *item) GetObjectMeta() metav1.Object {
	namespace, name, namespaced := strings.Cut(i.key, "/")
	if !namespaced {
		namespace, name = "", i.key
	}
	return &metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: i.version, Annotations: i.annotations}
}

// DeepCopyObject returns the item itself, because items are not modified by their readers.
func (i *item) DeepCopyObject() runtime.Object { return i }

// keyOf returns a name, preceded by the namespace and a slash if there is one.
func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Unread is the type of JSON that is skipped, for large fields that Keep drops. Decoding it never fails.
type Unread struct{}

// UnmarshalJSON does nothing.
func (*Unread) UnmarshalJSON([]byte) error { return nil }

// unreadable returns an item for an object that does not decode, or an error if not even its name can be read.
func (r *row) unreadable(raw []byte, cause error) (*item, error) {
	var head metav1.PartialObjectMetadata
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return nil, cause
	}
	i, err := r.itemOf(&head)
	if err == nil {
		i.err = cause
	}
	return i, err
}

// itemOf returns an item with the metadata that tables, followers and the reflector use, and nothing else.
func (r *row) itemOf(object metav1.Object) (*item, error) {
	if object.GetName() == "" {
		return nil, errors.New("metadata.name is missing")
	}
	r.place(object)
	i := &item{key: keyOf(object.GetNamespace(), object.GetName()), version: object.GetResourceVersion()}
	for _, key := range r.followAnnotations {
		if text, found := object.GetAnnotations()[key]; found {
			if i.annotations == nil {
				i.annotations = make(map[string]string, len(r.followAnnotations))
			}
			i.annotations[key] = text
		}
	}
	return i, nil
}

// place sets the namespace of an object as kubectl would.
func (r *row) place(object metav1.Object) {
	switch {
	case !r.namespaced:
		object.SetNamespace("")
	case object.GetNamespace() == "":
		object.SetNamespace(metav1.NamespaceDefault)
	}
}
