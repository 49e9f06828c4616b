package review

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/usherctl/requests"
)

// typeOf returns what makes an object of a kind of a route or of Kubernetes, or nil.
func typeOf(kind metav1.GroupVersionKind, kinds Kinds) func() any {
	if gvk := schema.GroupVersionKind(kind); kinds[kind] == nil && requests.Typed().Recognizes(gvk) {
		return func() any {
			object, _ := requests.Typed().New(gvk)
			return object
		}
	}
	return kinds[kind]
}

// warnUnknown warns of fields that a patch added and the type does not know: the API server drops them without a word.
func (r *reviewed) warnUnknown(make func() any) {
	if make == nil || len(r.Calls) == 0 {
		return
	}
	r.Unknown = unknown(r.Before, make())
	had := strings.Join(r.Unknown, "\n")
	last := &r.Calls[len(r.Calls)-1]
	for _, field := range unknown(r.After, make()) {
		if !strings.Contains(had, field) {
			last.Warnings = append(last.Warnings, fmt.Sprintf("the result has an %s: the API server drops it silently", field))
		}
	}
}

// unknown lists the fields that a type does not know.
func unknown(raw []byte, into any) (fields []string) {
	problems, err := kjson.UnmarshalStrict(raw, into, kjson.DisallowUnknownFields)
	if err != nil {
		return nil
	}
	for _, p := range problems {
		fields = append(fields, p.Error())
	}
	return fields
}
