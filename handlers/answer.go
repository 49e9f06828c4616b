package handlers

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/document"
)

// encodeReview returns an AdmissionReview with a response as encoding/json encodes it, but in one buffer, and without a
// look at the types.
func encodeReview(kind metav1.TypeMeta, r *admissionv1.AdmissionResponse) []byte {
	b := make([]byte, 0, sizeOf(r))
	b = document.AppendText(append(b, `{"kind":`...), kind.Kind)
	b = document.AppendText(append(b, `,"apiVersion":`...), kind.APIVersion)
	b = appendResponse(append(b, `,"response":`...), r)
	return append(b, '}')
}

// sizeOf returns about the number of bytes of an answer, so that its buffer need not grow.
func sizeOf(r *admissionv1.AdmissionResponse) int {
	size := 256 + base64.StdEncoding.EncodedLen(len(r.Patch))
	for key, value := range r.AuditAnnotations {
		size += len(key) + len(value) + len(`"":"",`)
	}
	for _, warning := range r.Warnings {
		size += len(warning) + len(`"",`)
	}
	return size
}

func appendResponse(b []byte, r *admissionv1.AdmissionResponse) []byte {
	b = document.AppendText(append(b, `{"uid":`...), string(r.UID))
	if r.Allowed {
		b = append(b, `,"allowed":true`...)
	} else {
		b = append(b, `,"allowed":false`...)
	}
	if r.Result != nil {
		status, _ := json.Marshal(r.Result) // of texts and numbers: it cannot fail
		b = append(append(b, `,"status":`...), status...)
	}
	if len(r.Patch) > 0 {
		b = append(b, `,"patch":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, r.Patch), '"')
	}
	if r.PatchType != nil {
		b = document.AppendText(append(b, `,"patchType":`...), string(*r.PatchType))
	}
	if len(r.AuditAnnotations) > 0 {
		b = appendMap(append(b, `,"auditAnnotations":`...), r.AuditAnnotations)
	}
	if len(r.Warnings) > 0 {
		b = appendList(append(b, `,"warnings":`...), r.Warnings)
	}
	return append(b, '}')
}

// appendMap appends an object of strings, which is not empty, in the order of its keys.
func appendMap(b []byte, texts map[string]string) []byte {
	keys := make([]string, 0, len(texts))
	for key := range texts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	first := len(b)
	for _, key := range keys {
		b = document.AppendText(append(b, ','), key)
		b = document.AppendText(append(b, ':'), texts[key])
	}
	b[first] = '{'
	return append(b, '}')
}

// appendList appends an array of strings, which is not empty.
func appendList(b []byte, texts []string) []byte {
	first := len(b)
	for _, text := range texts {
		b = document.AppendText(append(b, ','), text)
	}
	b[first] = '['
	return append(b, ']')
}
