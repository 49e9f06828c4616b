package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
)

// ParseJSONText decodes the JSON text of an annotation as the API server decodes JSON: names are case-sensitive, and
// members that T does not have are ignored. Duplicate members are an error, because readers would disagree on which one
// counts. So is text with more values than document.Value.Decodable allows, and empty text; null is the zero value. Use
// ResourceList for quantities. The error is worded for users, as the detail of a field error.
func ParseJSONText[T any](text string) (value T, err error) {
	if err := document.CheckText(text); err != nil { // sigs.k8s.io/json does not detect duplicates in members that it ignores
		return value, err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &value); err != nil {
		return *new(T), withoutGoTypes(err)
	}
	return value, nil
}

// withoutGoTypes rewords a decoder's error for users who do not know our types.
func withoutGoTypes(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "":
		return fmt.Errorf("JSON type %s does not belong here", wrong.Value)
	}
	return fmt.Errorf("JSON type %s does not belong at %s", wrong.Value, wrong.Field)
}

// ResourceList is a corev1.ResourceList (a conversion is free) whose quantities are decoded by ParseQuantity. The API
// server never parses the quantities in custom resources and annotations, so a quantity that takes minutes to parse can
// be stored there.
type ResourceList map[corev1.ResourceName]resource.Quantity

// UnmarshalJSON decodes an object of quantities.
func (l *ResourceList) UnmarshalJSON(data []byte) error {
	members, err := ParseJSONText[map[corev1.ResourceName]json.RawMessage](string(data))
	if err != nil || members == nil {
		return err // null leaves the list unchanged, as encoding/json requires
	}
	list, wrong := make(ResourceList, len(members)), corev1.ResourceName("")
	for name, text := range members {
		q, problem := readQuantity(text)
		if problem != nil && (err == nil || name < wrong) { // the same text always gives the same error
			wrong, err = name, problem
		}
		list[name] = q
	}
	if err != nil {
		return fmt.Errorf("%s: %w", wrong, err)
	}
	*l = list
	return nil
}

// readQuantity accepts what resource.Quantity accepts: a string, possibly surrounded by blanks, a bare number, or null
// for zero.
func readQuantity(data []byte) (resource.Quantity, error) {
	if bytes.Equal(data, []byte("null")) {
		return resource.Quantity{}, nil
	}
	text := string(data)
	switch {
	case text[0] == '"' && !strings.Contains(text, `\`):
		text = text[1 : len(text)-1]
	case text[0] == '"':
		_ = json.Unmarshal(data, &text) // a string always decodes into a string
	}
	return quantity.ParseQuantity(strings.TrimSpace(text))
}
