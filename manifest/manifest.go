// Package manifest reads files of Kubernetes objects, as kubectl does: YAML or JSON, one or many documents, and the items of lists.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/document"
)

// MaxBytes bounds a file: a larger one is a mistake. Callers check it while they read.
const MaxBytes = 64 << 20

// maxNesting bounds lists within lists.
const maxNesting = 10

// Object is one object of a file.
type Object struct {
	metav1.TypeMeta
	Place
	JSON []byte // with apiVersion and kind, also those that the item of a PodList need not have
}

// Place is where an object stands in a file.
type Place struct {
	File     string
	Document int   // from 1; documents of nothing but comments do not count
	Line     int   // of the file, from 1, where the document begins
	Items    []int // from 1: the item of a list, and of the list within it
}

// String is the whole place: "pods.yaml, document 2 (line 14), item 1".
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

// item returns the place of an item of the list that stands at p.
func (p Place) item(n int) Place {
	p.Items = append(p.Items[:len(p.Items):len(p.Items)], n)
	return p
}

// Problem is what is wrong at a place.
type Problem struct {
	Place
	Err error
}

func (p *Problem) Error() string { return p.Place.String() + ": " + p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

// Read splits the content of a file into its objects. It goes on after a problem, to find them all; each error is a *Problem.
// A file whose name ends in .json holds JSON; any other holds YAML, or JSON values that follow one another.
func Read(file string, content []byte) (found []Object, problems []error) {
	for n, text := range split(file, content) {
		at := Place{File: file, Document: n + 1, Line: text.line}
		raw, err := text.toJSON()
		if err != nil {
			problems = append(problems, &Problem{at, err})
		} else if string(raw) != "null" {
			objects, wrong := expand(at, raw, metav1.TypeMeta{})
			found, problems = append(found, objects...), append(problems, wrong...)
		}
	}
	return found, problems
}

// expand returns the object, or the items of a list: of kind List, or PodList, whose items need not have a type.
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
		return []Object{{head.TypeMeta, at, raw}}, nil
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

// withType returns an object with its type written into it.
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

// parse reports why JSON is not one value that the API server would take, without duplicate keys.
func parse(raw []byte) error {
	d, err := document.Parse(raw)
	if err != nil {
		return err
	}
	d.Release()
	return nil
}
