package admit

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// Meta is the view of an object's metadata. The other views embed it.
type Meta struct {
	root *document.Value
}

// MetaOf returns the view of an object's metadata, given the object.
func MetaOf(object *document.Value) Meta { return Meta{object} }

// Root returns the object itself. It is for views only: steps do not deal with paths.
func (m Meta) Root() *document.Value { return m.root }

// Name returns metadata.name; empty on CREATE with generateName.
func (m Meta) Name() string { return m.root.At("metadata", "name").Text() }

// GenerateName returns metadata.generateName.
func (m Meta) GenerateName() string { return m.root.At("metadata", "generateName").Text() }

// AsMeta views a document as an object of any kind, of which only the metadata is known.
func AsMeta(d *document.Document) *Meta { return &Meta{d.Root()} }

// Namespace returns metadata.namespace. It may be empty on CREATE; use the namespace of the request.
func (m Meta) Namespace() string { return m.root.At("metadata", "namespace").Text() }

// UID returns metadata.uid. The API server sets it before it calls validating webhooks; a hand-written review may lack
// it.
func (m Meta) UID() types.UID { return types.UID(m.root.At("metadata", "uid").Text()) }

// ResourceVersion returns metadata.resourceVersion.
func (m Meta) ResourceVersion() string { return m.root.At("metadata", "resourceVersion").Text() }

// Generation returns metadata.generation; 0 if it is not set.
func (m Meta) Generation() int64 {
	return document.As[int64](m.root.At("metadata", "generation"))
}

// Deleting reports whether the object is being deleted, which is whether it has a deletionTimestamp.
func (m Meta) Deleting() bool { return m.root.At("metadata", "deletionTimestamp").Exists() }

// Ended reports whether the object is being deleted and its grace period is over, so that only its finalizers keep it.
// A pod in its grace period, which its author may choose, still runs.
func (m Meta) Ended() bool {
	seconds := m.root.At("metadata", "deletionGracePeriodSeconds")
	return m.Deleting() && seconds.Exists() && document.As[int64](seconds) == 0
}

// OwnerReferences returns metadata.ownerReferences.
func (m Meta) OwnerReferences() []metav1.OwnerReference {
	return document.As[[]metav1.OwnerReference](m.root.At("metadata", "ownerReferences"))
}

// AppendOwnerReference adds an owner at the end.
func (m Meta) AppendOwnerReference(owner metav1.OwnerReference) {
	m.root.At("metadata", "ownerReferences").Append(owner)
}

// Controller returns the owner reference of the managing controller, and whether there is one.
func (m Meta) Controller() (metav1.OwnerReference, bool) {
	for _, owner := range m.OwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			return owner, true
		}
	}
	return metav1.OwnerReference{}, false
}

// Labels returns all labels.
func (m Meta) Labels() map[string]string { return Texts(m.root.At("metadata", "labels")) }

// Annotations returns all annotations.
func (m Meta) Annotations() map[string]string { return Texts(m.root.At("metadata", "annotations")) }

// Texts returns the members of an object whose values are strings, such as labels.
func Texts(object *document.Value) map[string]string { return textsWithPrefix(object, "") }

// HasLabel reports whether a label is present, empty or not.
func (m Meta) HasLabel(key string) bool { return m.label(key).Exists() }

// Label returns the value of a label; "" if it is missing.
func (m Meta) Label(key string) string { return m.label(key).Text() }

// Selectable returns the labels in the form that selectors take, without making a map of them. It reflects later edits.
func (m Meta) Selectable() labels.Labels { return selectable{m} }

type selectable struct{ Meta }

// Has reports whether a label is present.
func (s selectable) Has(key string) bool { return s.HasLabel(key) }

// Get returns the value of a label; "" if it is missing.
func (s selectable) Get(key string) string { return s.Label(key) }

// Lookup returns the value of a label, and whether it is present.
func (s selectable) Lookup(key string) (string, bool) { return s.Label(key), s.HasLabel(key) }

// LabelsWithPrefix returns the labels whose keys begin with a prefix, such as "example.com/".
func (m Meta) LabelsWithPrefix(prefix string) map[string]string {
	return textsWithPrefix(m.root.At("metadata", "labels"), prefix)
}

// RemoveLabelsWithPrefix removes the labels whose keys begin with a prefix.
func (m Meta) RemoveLabelsWithPrefix(prefix string) {
	removeWithPrefix(m.root.At("metadata", "labels"), prefix)
}

// AnnotationsWithPrefix returns the annotations whose keys begin with a prefix, such as "example.com/".
func (m Meta) AnnotationsWithPrefix(prefix string) map[string]string {
	return textsWithPrefix(m.root.At("metadata", "annotations"), prefix)
}

// RemoveAnnotationsWithPrefix removes the annotations whose keys begin with a prefix.
func (m Meta) RemoveAnnotationsWithPrefix(prefix string) {
	removeWithPrefix(m.root.At("metadata", "annotations"), prefix)
}

func textsWithPrefix(object *document.Value, prefix string) map[string]string {
	some := map[string]string{}
	for key, value := range object.Members() {
		if strings.HasPrefix(key, prefix) {
			some[key] = value.Text()
		}
	}
	return some
}

func removeWithPrefix(object *document.Value, prefix string) {
	for key, value := range object.Members() {
		if strings.HasPrefix(key, prefix) {
			value.Remove()
		}
	}
}

// SetLabel sets one label.
func (m Meta) SetLabel(key, value string) { m.label(key).SetText(value) }

// RemoveLabel removes one label.
func (m Meta) RemoveLabel(key string) { m.label(key).Remove() }

// Annotation returns the value of an annotation, and whether it is present.
func (m Meta) Annotation(key string) (string, bool) {
	v := m.annotation(key)
	return v.Text(), v.Exists()
}

// SetAnnotation sets one annotation.
func (m Meta) SetAnnotation(key, value string) { m.annotation(key).SetText(value) }

// RemoveAnnotation removes one annotation.
func (m Meta) RemoveAnnotation(key string) { m.annotation(key).Remove() }

func (m Meta) label(key string) *document.Value { return m.root.At("metadata", "labels", key) }

func (m Meta) annotation(key string) *document.Value {
	return m.root.At("metadata", "annotations", key)
}

// The field paths of metadata, for a step's errors.
var (
	metadataPath     = field.NewPath("metadata")
	NamePath         = metadataPath.Child("name")
	GenerateNamePath = metadataPath.Child("generateName")
	NamespacePath    = metadataPath.Child("namespace")
	LabelsPath       = metadataPath.Child("labels")
	OwnersPath       = metadataPath.Child("ownerReferences")
)

// LabelPath returns the field path of one label.
func LabelPath(key string) *field.Path { return LabelsPath.Key(key) }

// AnnotationPath returns the field path of one annotation.
func AnnotationPath(key string) *field.Path { return metadataPath.Child("annotations").Key(key) }
