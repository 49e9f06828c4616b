package requests

import (
	"encoding/json"
	"errors"
)

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
