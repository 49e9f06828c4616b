// Package handlers knows HTTP and the AdmissionReview, but no rule: it reads a review, runs the steps, and writes the answer.
package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Step is one rule about objects of a type. It returns what is wrong, by fields. A mutator changes the object.
type Step[T any] func(*admissionv1.AdmissionRequest, *T) field.ErrorList

// maxBody bounds a review: the API server takes objects of up to 3 MiB, and sends the new and the old one.
const maxBody = 7 << 20

// Review returns the handler of a path that is for one operation on one resource, such as "UPDATE nodes/status".
//
// HTTP 200 says that a decision was made, a refusal, too. Anything else says that none was made: then failurePolicy decides.
func Review[T any](on string, steps []Step[T]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log := logrus.WithField("path", r.URL.Path)
		review, err := read(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			review.Response, err = decide(review.Request, on, steps)
		}
		if err != nil {
			code := http.StatusBadRequest
			if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
				code = http.StatusRequestEntityTooLarge
			}
			log.Warn(err)
			http.Error(w, err.Error(), code)
			return
		}
		log.Infof("%s %s/%s by %s: allowed %t, patch of %d bytes", review.Request.Operation, review.Request.Namespace, review.Request.Name,
			review.Request.UserInfo.Username, review.Response.Allowed, len(review.Response.Patch))
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // an error means that nobody listens any more
	})
}

// read reads a review of v1 or v1beta1: their fields are the same. The answer must have the apiVersion of the question.
func read(body io.Reader) (review admissionv1.AdmissionReview, err error) {
	bytes, err := io.ReadAll(body)
	if err == nil { // not encoding/json: for the API server, and so for utiljson, "Name" is another field than "name"
		err = utiljson.Unmarshal(bytes, &review)
	}
	if err != nil {
		return review, err
	}
	if v := review.APIVersion; v != "admission.k8s.io/v1" && v != "admission.k8s.io/v1beta1" || review.Kind != "AdmissionReview" {
		return review, fmt.Errorf("want an AdmissionReview of admission.k8s.io/v1 or v1beta1, not %q %q", v, review.Kind)
	}
	if review.Request == nil || review.Request.UID == "" {
		return review, errors.New("want a request with a uid")
	}
	return review, nil
}

// decide answers a request. Its error means that the request is none for this path, or that its object cannot be read.
func decide[T any](req *admissionv1.AdmissionRequest, on string, steps []Step[T]) (*admissionv1.AdmissionResponse, error) {
	resp := &admissionv1.AdmissionResponse{UID: req.UID, Allowed: true} // without the uid the API server refuses the answer
	operation, resource, _ := strings.Cut(on, " ")
	if got := path.Join(req.Resource.Resource, req.SubResource); got != resource {
		return nil, fmt.Errorf("this path is for %s, not for %q: see rules in the webhook configuration", resource, got)
	}
	if string(req.Operation) != operation {
		return resp, nil // a DELETE has no object, and most fields of a pod cannot be changed by an UPDATE
	}
	var sent, object T
	if err := errors.Join(utiljson.Unmarshal(req.Object.Raw, &sent), utiljson.Unmarshal(req.Object.Raw, &object)); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	var problems field.ErrorList
	for _, step := range steps { // all of them, so that users see all that is wrong at once
		problems = append(problems, step(req, &object)...)
	}
	if len(problems) > 0 {
		kind := schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}
		resp.Allowed, resp.Result = false, &apierrors.NewInvalid(kind, req.Name, problems).ErrStatus
		return resp, nil
	}
	patch, err := patchOf(req.Object.Raw, &sent, &object)
	if patch != nil { // the API server refuses a patch without a type, and a type without a patch
		patchType := admissionv1.PatchTypeJSONPatch
		resp.Patch, resp.PatchType = patch, &patchType
	}
	return resp, err
}
