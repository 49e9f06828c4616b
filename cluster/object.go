package cluster

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// item is an object as a source brings it: a little metadata, which the reflector wants, and what is kept. It is thrown away when
// the kept part is in a table.
type item struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	kept any
	err  error             // why there is nothing to keep
	told map[string]string // see Object
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

// Unread is JSON that nobody looks at: the type of large fields that Keep leaves behind, and that must not fail.
type Unread struct{}

// UnmarshalJSON does nothing.
func (*Unread) UnmarshalJSON([]byte) error { return nil }

// unreadable gives the item of an object that does not decode, if its name at least can be read.
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

// itemOf gives an item with nothing in it but the metadata that tables, followers and the reflector use.
func (r *row) itemOf(object metav1.Object) (*item, error) {
	if object.GetName() == "" {
		return nil, errors.New("metadata.name is missing")
	}
	r.place(object)
	i := &item{ObjectMeta: metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), ResourceVersion: object.GetResourceVersion(),
	}}
	for _, key := range r.tell {
		if text, there := object.GetAnnotations()[key]; there {
			if i.told == nil {
				i.told = make(map[string]string, len(r.tell))
			}
			i.told[key] = text
		}
	}
	return i, nil
}

// place puts an object into the namespace that kubectl would put it into.
func (r *row) place(object metav1.Object) {
	switch {
	case !r.namespaced:
		object.SetNamespace("")
	case object.GetNamespace() == "":
		object.SetNamespace(metav1.NamespaceDefault)
	}
}
