package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/server/suite"
)

// Slips are what is not looked at in the manifests that stand for a cluster.
type Slips struct {
	Wrong     []*manifest.Problem       // kinds that no API server has, and fields that a kind does not have
	Undefined []schema.GroupVersionKind // the kinds that nothing here knows
	Unread    string                    // the same, with the reason; empty: there are none
}

// Lines says each in one line.
func (s Slips) Lines() (lines []string) {
	for _, p := range s.Wrong {
		lines = append(lines, fmt.Sprintf("%s:%d: %v", p.File, p.Line, p.Err))
	}
	if s.Unread != "" {
		lines = append(lines, s.Unread)
	}
	return lines
}

// Err returns what is wrong as one error; nil if nothing is.
func (s Slips) Err() error {
	s.Unread = ""
	if len(s.Wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(s.Lines(), "\n  "))
}

// SlipsIn returns what is not looked at in manifests.
func SlipsIn(found []manifest.Object, suites suite.List) (s Slips) {
	routes := suites.Table(suite.NoPolicy, gate.Defaults(suites.Gates()))
	catalogue, types := NewCatalogue(routes), Types(suites)
	for _, kept := range suites.Watched(routes).Kept() {
		catalogue.Add(kept.Kind, !kept.Namespaced)
	}
	addDefined(catalogue, found)
	unread := map[schema.GroupVersionKind]int{}
	for _, o := range found {
		gvk, wrong := o.GroupVersionKind(), func(err error) { s.Wrong = append(s.Wrong, &manifest.Problem{Place: o.Place, Err: err}) }
		if err := catalogue.Check(gvk); err != nil {
			wrong(err)
			continue
		}
		if _, known := catalogue[gvk.GroupKind()]; !known {
			unread[gvk]++
		}
		if make := TypeOf(gvk, types); make != nil {
			for _, field := range unknownFields(o.JSON, make()) {
				wrong(errors.New(unknownField(field, make())))
			}
		}
	}
	var kinds []string
	for gvk, n := range unread {
		s.Undefined = append(s.Undefined, gvk)
		kinds = append(kinds, fmt.Sprintf("%d %s of %s", n, gvk.Kind, gvk.GroupVersion()))
	}
	if slices.Sort(kinds); len(kinds) > 0 {
		s.Unread = "not looked at, since no file has their CustomResourceDefinitions: " + strings.Join(kinds, ", ")
	}
	return s
}

// addDefined adds the kinds that CustomResourceDefinitions among manifests define.
func addDefined(c Catalogue, found []manifest.Object) {
	for _, o := range found {
		var is apiextensionsv1.CustomResourceDefinition
		if o.Kind != "CustomResourceDefinition" || json.Unmarshal(o.JSON, &is) != nil {
			continue
		}
		for _, v := range is.Spec.Versions {
			c.Add(schema.GroupVersionKind{Group: is.Spec.Group, Version: v.Name, Kind: is.Spec.Names.Kind}, is.Spec.Scope == apiextensionsv1.ClusterScoped)
		}
	}
}

// TypeOf returns what makes an object of a kind of which the fields are known, or nil.
func TypeOf(gvk schema.GroupVersionKind, types map[metav1.GroupVersionKind]func() any) func() any {
	if of := types[metav1.GroupVersionKind(gvk)]; of != nil || !Typed().Recognizes(gvk) {
		return of
	}
	return func() any {
		object, _ := Typed().New(gvk)
		return object
	}
}

// unknownField says that a type does not have a field, and which one was probably meant.
func unknownField(field string, of any) string {
	return field + ": unknown field" + nearest.Question(lastOf(field), fieldsBeside(reflect.TypeOf(of), field))
}

// UnknownFields says of warnings of an API server about an object that its kind does not have a field, and which one was probably meant.
func UnknownFields(object []byte, warnings []string, suites suite.List) (lines []string) {
	var is metav1.TypeMeta
	_ = json.Unmarshal(object, &is)
	for _, text := range warnings {
		make, m := TypeOf(is.GroupVersionKind(), Types(suites)), quotedField.FindStringSubmatch(text)
		if make != nil && m != nil {
			text = unknownField(m[1], make())
		}
		lines = append(lines, text)
	}
	return lines
}

var quotedField = regexp.MustCompile(`^unknown field "(.+)"$`)

// unknownFields returns the paths of the fields that a type does not have, as the API server finds them.
func unknownFields(raw []byte, into any) (fields []string) {
	problems, _ := kjson.UnmarshalStrict(raw, into, kjson.DisallowUnknownFields)
	for _, p := range problems {
		if m := quotedField.FindStringSubmatch(p.Error()); m != nil {
			fields = append(fields, m[1])
		}
	}
	return fields
}

func lastOf(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// fieldsBeside returns the names of the fields that a type has where it does not have one.
func fieldsBeside(of reflect.Type, path string) (names []string) {
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		name, _, _ := strings.Cut(part, "[")
		if of = fieldsOf(of)[name]; of == nil {
			return nil
		}
	}
	return slices.Sorted(maps.Keys(fieldsOf(of)))
}

// fieldsOf returns the types of the fields of a struct, or of the elements of a list or map of structs.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	all := map[string]reflect.Type{}
	if of.Kind() != reflect.Struct {
		return all
	}
	for f := range of.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			all[name] = f.Type
		} else if f.Anonymous {
			maps.Copy(all, fieldsOf(f.Type))
		}
	}
	return all
}
