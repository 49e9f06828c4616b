package admit

import (
	"bytes"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// Workload is the view of an object from whose template a controller makes pods: a Deployment, StatefulSet, DaemonSet,
// Job or CronJob.
type Workload struct{ Meta }

// AsWorkload views a document as a Workload.
func AsWorkload(d *document.Document) *Workload { return &Workload{Meta{d.Root()}} }

// Template returns the view of the pod template. Its paths begin with the template's path, such as
// spec.template.metadata.labels.
func (w *Workload) Template() *Pod { return &Pod{Meta{w.template()}} }

// template returns the pod template, which for a CronJob is in its job template.
func (w *Workload) template() *document.Value {
	if w.Kind() == "CronJob" {
		return w.root.At("spec", "jobTemplate", "spec", "template")
	}
	return w.root.At("spec", "template")
}

// Kind returns the kind of the object.
func (w *Workload) Kind() string { return w.root.Get("kind").Text() }

// LabelPath returns the field path of one label. In a pod template it begins with the template's path.
func (m Meta) LabelPath(key string) *field.Path {
	return m.root.At("metadata", "labels").Path().Key(key)
}

// AnnotationPath returns the field path of one annotation. In a pod template it begins with the template's path.
func (m Meta) AnnotationPath(key string) *field.Path {
	return m.root.At("metadata", "annotations").Path().Key(key)
}

// Copy returns a view of a copy of the pod as it was sent, or of an empty pod if there is none. Edits of the copy are no
// edits of the object under review: a validator may make them to see what a mutator would.
func (p *Pod) Copy() *Pod {
	if d := p.root.Sub(); d != nil {
		return AsPod(d)
	}
	empty, err := document.Parse([]byte(`{}`))
	if err != nil {
		panic(err)
	}
	return AsPod(empty)
}

// Same reports whether two pods have the same JSON.
func (p *Pod) Same(other *Pod) bool { return bytes.Equal(p.root.Bytes(), other.root.Bytes()) }
