package requests

import (
	"encoding/json"
	"errors"

	applier "gopkg.in/evanphx/json-patch.v4"

	"usher.dev/usher/usherctl/report"
)

// Patched returns a document with a JSON patch, by the API server's own applier.
func Patched(document []byte, patch []report.Operation) ([]byte, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	operations, err := applier.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	return operations.Apply(document)
}

// WithObject returns a review with another object, such as the patched one for the next route.
func WithObject(body, object []byte) ([]byte, error) {
	var review, request map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &review), json.Unmarshal(review["request"], &request)); err != nil {
		return nil, err
	}
	request["object"] = object
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	review["request"] = raw
	return json.Marshal(review)
}
