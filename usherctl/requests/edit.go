package requests

import (
	"bytes"
	"encoding/json"
	"errors"

	"usher.dev/usher/admit/document"
)

// WithObject returns a review with another object, such as the patched one for the next route.
func WithObject(body, object []byte) ([]byte, error) { return WithMember(body, "object", object) }

// WithMember returns a review with another member of its request.
func WithMember(body []byte, member string, object []byte) ([]byte, error) {
	return EditRequest(body, func(request map[string]json.RawMessage) { request[member] = object })
}

// EditRequest returns a review with members of its request changed.
func EditRequest(body []byte, edit func(request map[string]json.RawMessage)) ([]byte, error) {
	var review, request map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &review), json.Unmarshal(review["request"], &request)); err != nil {
		return nil, err
	}
	edit(request)
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	review["request"] = raw
	return json.Marshal(review)
}

// EditObject returns a review with its object edited, or unchanged if the object cannot be read or edited.
func EditObject(body []byte, edit func(*document.Document)) []byte {
	before := ObjectIn(body)
	after := EditJSON(before, edit)
	if bytes.Equal(before, after) {
		return body
	}
	with, err := WithObject(body, after)
	if err != nil {
		return body
	}
	return with
}

// EditJSON returns an object edited, or unchanged if it cannot be read or edited.
func EditJSON(raw json.RawMessage, edit func(*document.Document)) json.RawMessage {
	object, err := document.Parse(raw)
	if err != nil {
		return raw
	}
	if edit(object); object.Err() != nil {
		return raw
	}
	return bytes.Clone(object.Bytes())
}

// ObjectIn returns the object of a review, or nil if the review cannot be read.
func ObjectIn(body []byte) json.RawMessage {
	var review struct {
		Request struct{ Object json.RawMessage }
	}
	if json.Unmarshal(body, &review) != nil {
		return nil
	}
	return review.Request.Object
}
