// Package review sends manifests and AdmissionReviews through the routes without a server, as an API server would, and
// shows what becomes of them.
package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/cluster/manifest"
)

// Document is one object to review, as JSON: one of a file, or a pod that a controller would make of it.
type Document struct {
	Source string // the file, and where in it
	JSON   []byte
	Err    error // why there is no JSON
	// Of names the workload of a pod that a controller would make, such as "Deployment web → its pods", and Controller is the service account
	// in kube-system that would create it; both are empty for what a file holds.
	Of, Controller string
	Line           int // where the document begins in the file, counted from 1
}

func (d Document) subject() Subject { return Subject{Source: d.Source, Of: d.Of} }

// Read reads the objects of a file, see manifest.Read. A document that cannot be read has an error, and the others are read all the same. The
// source "-" is standard input.
func Read(source string, in io.Reader) []Document {
	if source == "-" {
		source = "standard input"
	}
	content, err := io.ReadAll(io.LimitReader(in, manifest.MaxBytes+1))
	if err == nil && len(content) > manifest.MaxBytes {
		err = fmt.Errorf("the file is larger than %d MiB", manifest.MaxBytes>>20)
	}
	if err != nil {
		return []Document{{Source: source, Err: err}}
	}
	objects, problems := manifest.Read(source, content)
	var documents []Document
	for _, o := range objects {
		documents = append(documents, Document{Source: sourceOf(o.Place, len(objects)+len(problems) == 1), JSON: o.JSON, Line: o.Line})
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
		return []Document{{Source: source, Err: errors.New("holds no object")}}
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
		if d.Err != nil || json.Unmarshal(d.JSON, &object.Object) != nil {
			all = append(all, d)
			continue
		}
		if object.GetNamespace() == "" && o.Namespace != "" {
			object.SetNamespace(o.Namespace)
		}
		pods := podsOf(d, object, extra)
		if len(pods) == 0 || hasRoute(object) {
			all = append(all, d)
		}
		all = append(all, pods...)
	}
	return all
}
