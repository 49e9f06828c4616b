// Package manifest reads files of Kubernetes objects, like kubectl: YAML or JSON, one or many documents, and the items
// of lists.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/document"
)

// MaxBytes is the maximum size in bytes of a document, and of a file of a cluster, which callers check while they read.
const MaxBytes = 64 << 20

// maxNesting is the maximum nesting of lists.
const maxNesting = 10

// Object is one object of a file.
type Object struct {
	metav1.TypeMeta
	Place
	JSON []byte // includes apiVersion and kind, which the item of a PodList need not have
	// Duplicate is the error about a key that is set twice, of an object that AsSent has read. The last value counts.
	Duplicate error
}

// Place is the position of an object in a file.
type Place struct {
	File     string
	Document int   // counted from 1, without documents that contain only comments
	Line     int   // the line of the file, counted from 1, where the document begins
	Items    []int // the index in a list, and in lists within it, counted from 1
}

// String returns the place including the line: "pods.yaml, document 2 (line 14), item 1".
func (p Place) String() string {
	return fmt.Sprintf("%s, document %d (line %d)%s", p.File, p.Document, p.Line, p.items())
}

func (p Place) items() string {
	var text strings.Builder
	for _, n := range p.Items {
		fmt.Fprintf(&text, ", item %d", n)
	}
	return text.String()
}

// item returns the place of item n of the list at p.
func (p Place) item(n int) Place {
	p.Items = append(p.Items[:len(p.Items):len(p.Items)], n)
	return p
}

// Problem is an error at a place.
type Problem struct {
	Place
	Err error
}

func (p *Problem) Error() string { return p.Place.String() + ": " + p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// Read splits the content of a file into its objects. It continues after a problem, to find all of them; each error is
// a *Problem. A file whose name ends in .json contains JSON; any other file contains YAML, or consecutive JSON values.
func Read(file string, content []byte) (found []Object, problems []error) {
	for _, d := range documents(file, content) {
		if d.err == nil && d.duplicate != nil {
			d.err = &Problem{d.Place, d.duplicate}
		}
		if d.err != nil {
			problems = append(problems, d.err)
			continue
		}
		objects, wrong := expand(d.Place, d.JSON, d.itemOf)
		found, problems = append(found, objects...), append(problems, wrong...)
	}
	return found, problems
}

// AsSent is like Read, but of a key that is set twice the last value counts, as for the API server.
func AsSent(file string, content []byte) (found []Object, problems []error) {
	for _, d := range documents(file, content) {
		if d.err != nil {
			problems = append(problems, d.err)
			continue
		}
		objects, wrong := expand(d.Place, d.JSON, d.itemOf)
		for i := range objects {
			objects[i].Duplicate = d.duplicate
		}
		found, problems = append(found, objects...), append(problems, wrong...)
	}
	return found, problems
}

// Document is one document of a file, of any content.
type Document struct {
	Place
	Raw       []byte // as it is written
	JSON      []byte
	err       error
	duplicate error           // a key is set twice
	itemOf    metav1.TypeMeta // of an item of a long list, the type if it names none
}

// Documents is like Read for documents of any content.
func Documents(file string, content []byte) (found []Document, problems []error) {
	for _, d := range documents(file, content) {
		if d.err == nil && d.duplicate != nil {
			d.err = &Problem{d.Place, d.duplicate}
		}
		if d.err != nil {
			problems = append(problems, d.err)
			continue
		}
		found = append(found, d)
	}
	return found, problems
}

// documents returns the documents of a file that are not empty, and of long lists the items. Those that cannot be read have an error.
func documents(file string, content []byte) (all []Document) {
	for n, text := range split(file, content) {
		at := Place{File: file, Document: n + 1, Line: text.line}
		if items := text.itemDocuments(at); items != nil {
			all = append(all, items...)
		} else if d := text.document(at); d.err != nil || string(d.JSON) != "null" {
			all = append(all, d)
		}
	}
	return all
}

// itemDocuments returns the items of a long list. Nil: the text is to be read as a whole.
func (t text) itemDocuments(at Place) (all []Document) {
	itemOf, items := t.items()
	for n, item := range items {
		d := item.document(at.item(n + 1))
		if d.itemOf = itemOf; d.err != nil && !t.json {
			return nil // items may refer to each other
		}
		all = append(all, d)
	}
	return all
}

func (t text) document(at Place) Document {
	d := Document{Place: at, Raw: t.raw}
	var err error
	if d.JSON, d.duplicate, err = t.toJSON(); err != nil {
		d.err = &Problem{at, err}
	}
	return d
}

// expand returns the object or, for a list, its items. The items of a list with a type of its own, such as PodList,
// need not have a type.
func expand(at Place, raw []byte, itemOf metav1.TypeMeta) (found []Object, problems []error) {
	var head struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, []error{&Problem{at, errors.New("not a Kubernetes object: not a mapping with apiVersion and kind")}}
	}
	if head.Kind == "" && head.APIVersion == "" && itemOf.Kind != "" {
		head.TypeMeta, raw = itemOf, withType(raw, itemOf)
	}
	if head.Kind == "" || head.APIVersion == "" {
		return nil, []error{&Problem{at, errors.New("not a Kubernetes object: apiVersion or kind is missing")}}
	}
	element, isList := strings.CutSuffix(head.Kind, "List")
	if !isList || head.Items == nil {
		return []Object{{TypeMeta: head.TypeMeta, Place: at, JSON: raw}}, nil
	}
	if len(at.Items) >= maxNesting {
		return nil, []error{&Problem{at, fmt.Errorf("more than %d lists within each other", maxNesting)}}
	}
	itemOf = metav1.TypeMeta{}
	if element != "" {
		itemOf = metav1.TypeMeta{APIVersion: head.APIVersion, Kind: element}
	}
	for n, each := range head.Items {
		objects, wrong := expand(at.item(n+1), each, itemOf)
		found, problems = append(found, objects...), append(problems, wrong...)
	}
	return found, problems
}

// withType returns an object with the given type added.
func withType(raw []byte, is metav1.TypeMeta) []byte {
	d, err := document.Parse(raw)
	if err != nil {
		return raw
	}
	defer d.Release()
	d.Root().Get("apiVersion").Set(is.APIVersion)
	d.Root().Get("kind").Set(is.Kind)
	return d.Bytes()
}

// parse returns an error if raw is not one JSON value that the API server would accept, or has duplicate keys.
func parse(raw []byte) error {
	d, err := document.Parse(raw)
	if err != nil {
		return err
	}
	d.Release()
	return nil
}
