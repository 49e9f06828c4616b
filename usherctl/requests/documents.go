// Package requests makes the AdmissionReviews that an API server would send for manifests.
package requests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/handlers"
	"usher.dev/usher/usherctl/report"
)

// Document is one object to review, as JSON: one of a file, or a pod that a controller would make of it.
type Document struct {
	Source string // the file, and where in it
	JSON   []byte
	Err    error // why there is no JSON
	// Of names the workload of a pod that a controller would make, such as "Deployment web → its pods", and Controller is the service account
	// in kube-system that would create it; both are empty for what a file holds.
	Of, Controller string
	Line           int       // where the document begins in the file, counted from 1
	Duplicate      error     // a key is set twice; the last value counts
	Template       string    // of the pod: the path of its template in the workload, such as spec.template
	Workload       []byte    // of the pod, in JSON, if that is not reviewed itself
	Maker          *Document // the workload of the pod
	Existing       bool      // a cluster has the object, see Existing
	Owner          string    // of the pod that a cluster has, such as "Deployment shop/web"
	Old            []byte    // the stored object, in JSON, that becomes the object of JSON; empty: there is none, or Options have it
	OldErr         error     // why the stored object, or what becomes of it, is not known
}

// File returns the document that a file holds: for a pod that a controller would make, its workload.
func (d Document) File() Document {
	if d.Maker != nil {
		return *d.Maker
	}
	return d
}

// KeepsSpec reports whether the object of a file is stored with the same spec: nothing is created because of it.
func (d Document) KeepsSpec() bool {
	file := d.File()
	return len(file.Old) > 0 && bytes.Equal(specOf(file.Old), specOf(file.JSON))
}

// KeepsTemplate reports whether an update of a workload changes nothing of its pods.
func (d Document) KeepsTemplate() bool {
	var is metav1.TypeMeta
	_ = json.Unmarshal(d.JSON, &is)
	kind, _ := admit.WorkloadKindOf(is.GroupVersionKind().GroupKind())
	if len(d.Old) == 0 || len(kind.Template) == 0 || kind.Template[0] != "spec" {
		return false
	}
	before, _ := rawAt(specOf(d.Old), kind.Template[1:])
	after, _ := rawAt(specOf(d.JSON), kind.Template[1:])
	return bytes.Equal(before, after)
}

// specOf returns the spec of an object, with values as an API server writes them if the kind is known.
func specOf(raw []byte) []byte {
	var is metav1.TypeMeta
	_ = json.Unmarshal(raw, &is)
	if typed, err := Typed().New(is.GroupVersionKind()); err == nil && Decode(raw, typed) == nil {
		if text, err := json.Marshal(typed); err == nil {
			raw = text
		}
	}
	spec, _ := rawAt(raw, []string{"spec"})
	return spec
}

// Subject returns the document as the subject of a report.
func (d Document) Subject() report.Subject {
	of := report.Subject{Source: d.Source, Of: d.Of, Owner: d.Owner}
	var is metav1.PartialObjectMetadata
	if json.Unmarshal(d.File().Old, &is) == nil {
		of.Updates = is.Kind + " " + strings.TrimPrefix(is.Namespace+"/"+is.Name, "/")
	}
	return of
}

// NotSent returns the report of a document that could not be sent.
func NotSent(d Document, err error) report.Report {
	return report.Report{Subject: d.Subject()}.Failing(report.Call{Outcome: string(handlers.Invalid), Message: err.Error()})
}

// maxInput is the maximum size of a file or of standard input. Documents have limits of their own; all are kept, as one may count for those
// before it.
const maxInput = 1 << 30

var errNoObject = errors.New("holds no object")

// Read reads the objects of a file, see manifest.Read. A document that cannot be read has an error, and the others are read all the same. The
// source "-" is standard input.
func Read(source string, in io.Reader) []Document {
	if source == "-" {
		source = "standard input"
	}
	content, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(content) > maxInput {
		err = fmt.Errorf("the file is larger than %d GiB", maxInput>>30)
	}
	if err != nil {
		return []Document{{Source: source, Err: err}}
	}
	objects, problems := manifest.AsSent(source, content)
	var documents []Document
	for _, o := range objects {
		documents = append(documents, Document{Source: sourceOf(o.Place, len(objects)+len(problems) == 1), JSON: o.JSON, Line: o.Line,
			Duplicate: o.Duplicate})
	}
	for _, err := range problems {
		d := Document{Source: source, Err: err}
		if problem, ok := errors.AsType[*manifest.Problem](err); ok {
			d = Document{Source: sourceOf(problem.Place, false), Err: problem.Err, Line: problem.Line}
		}
		documents = append(documents, d)
	}
	slices.SortStableFunc(documents, func(a, b Document) int { return a.Line - b.Line })
	if len(documents) == 0 {
		return []Document{{Source: source, Err: errNoObject}}
	}
	return documents
}

// sourceOf returns the file of an object, and the line where its document begins unless it is the only one.
func sourceOf(p manifest.Place, only bool) string {
	if only && len(p.Items) == 0 {
		return p.File
	}
	text := fmt.Sprintf("%s:%d", p.File, p.Line)
	for _, item := range p.Items {
		text += fmt.Sprintf(", item %d", item)
	}
	return text
}

// WithPods returns documents with the pods that controllers would make of them: a workload for which there is no route is replaced by its
// pods, which are reviewed in its place. extra are paths of templates in kinds that Kubernetes does not know, such as
// spec.template. hasRoute reports whether a route is for a kind.
func WithPods(documents []Document, extra []string, o Options, hasRoute func(*unstructured.Unstructured) bool) (all []Document) {
	for _, d := range documents {
		object := &unstructured.Unstructured{}
		if d.Err != nil || len(extra) == 0 && !d.isWorkload() || json.Unmarshal(d.JSON, &object.Object) != nil {
			all = append(all, d)
			continue
		}
		if object.GetNamespace() == "" && o.Namespace != "" {
			object.SetNamespace(o.Namespace)
		}
		pods := podsOf(d, object, extra)
		if len(pods) == 0 || hasRoute(object) {
			all = append(all, d)
		} else {
			pods[0].Workload = withNamespace(d.JSON, object)
		}
		for _, pod := range pods {
			pod.Maker = &d
			all = append(all, pod)
		}
	}
	return all
}

// isWorkload reports whether a document is of a kind of Kubernetes that has a template of pods.
func (d Document) isWorkload() bool {
	var is metav1.TypeMeta
	_ = json.Unmarshal(d.JSON, &is)
	_, found := admit.WorkloadKindOf(is.GroupVersionKind().GroupKind())
	return found
}

// withNamespace returns the object of a document with the namespace that it is created in.
func withNamespace(raw []byte, object *unstructured.Unstructured) []byte {
	full, err := object.MarshalJSON()
	if err != nil {
		return raw
	}
	return full
}

// FieldInFile returns the path in the file of a field of the object: for a pod that a controller would make, the one in
// the workload, which also gives the pod its name and namespace; for a generated name, metadata.generateName.
func (d Document) FieldInFile(field string) string {
	switch {
	case d.Template == "" && field == "metadata.name" && d.unnamed():
		return "metadata.generateName"
	case d.Template == "":
		return field
	case field == "metadata.name" || field == "metadata.generateName":
		return "metadata.name"
	case field == "metadata.namespace":
		return field
	}
	return d.Template + "." + field
}

// unnamed reports whether the API server makes the name of a manifest.
func (d Document) unnamed() bool {
	var is metav1.PartialObjectMetadata
	return json.Unmarshal(d.JSON, &is) == nil && is.Name == "" && is.GenerateName != ""
}

// IsReview reports whether a document is an AdmissionReview, and no manifest.
func (d Document) IsReview() bool {
	var is struct{ Kind string }
	return json.Unmarshal(d.JSON, &is) == nil && is.Kind == "AdmissionReview"
}
