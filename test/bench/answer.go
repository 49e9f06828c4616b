package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/test/reviews"
)

// outcome checks a server's first answer to a review, and returns the object that results from it.
func outcome(r reviews.Review, answer []byte) (object any, err error) {
	var sent, got admissionv1.AdmissionReview
	if err := errors.Join(json.Unmarshal(r.Body, &sent), json.Unmarshal(answer, &got)); err != nil {
		return nil, err
	}
	switch {
	case got.Response == nil || !got.Response.Allowed || got.Response.UID != sent.Request.UID:
		return nil, fmt.Errorf("does not allow it: %s", answer)
	case r.Patched != (len(got.Response.Patch) > 0):
		return nil, fmt.Errorf("wants a patch: %v, answered %s", r.Patched, answer)
	}
	raw := sent.Request.Object.Raw
	if r.Patched {
		patch, err := jsonpatch.DecodePatch(got.Response.Patch)
		if err != nil {
			return nil, err
		}
		if raw, err = patch.Apply(raw); err != nil {
			return nil, err
		}
	}
	return object, json.Unmarshal(raw, &object)
}

// sameOutcome returns an error unless all servers but the constant one do the same work; otherwise their costs cannot be
// compared.
func sameOutcome(r reviews.Review, first map[string][]byte) error {
	want, err := outcome(r, first[usher])
	if err != nil {
		return fmt.Errorf("%s: usher %w", r.Name, err)
	}
	for _, name := range []string{plain, before} {
		answer, measured := first[name]
		if !measured {
			continue
		}
		object, err := outcome(r, answer)
		if err != nil {
			return fmt.Errorf("%s: %s %w", r.Name, name, err)
		}
		if !reflect.DeepEqual(object, want) {
			return fmt.Errorf("%s: usher and %s do not make the same object of it: they would not be comparable", r.Name, name)
		}
	}
	return nil
}

// like returns a check of all further answers against the first. The order of a diff may vary: such an answer must have
// the same length, and a patch if the first has one.
func like(first []byte) func([]byte) error {
	patched := bytes.Contains(first, []byte(`"patch":`))
	return func(got []byte) error {
		if bytes.Equal(got, first) || len(got) == len(first) && bytes.Contains(got, []byte(`"allowed":true`)) &&
			bytes.Contains(got, []byte(`"patch":`)) == patched {
			return nil
		}
		return fmt.Errorf("answered %.400s, and before %.400s", got, first)
	}
}
