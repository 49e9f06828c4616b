package handlers

import (
	"encoding/json"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// wantEncoded fails the test unless a response is encoded as encoding/json encodes it.
func wantEncoded(t *testing.T, kind metav1.TypeMeta, r *admissionv1.AdmissionResponse) {
	t.Helper()
	want, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: kind, Response: r})
	if got := encodeReview(kind, r); err != nil || string(got) != string(want) {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

// TestAnswerIsJSON: each field of a response, alone and with all others, is encoded as by encoding/json; also a field
// that a later version of the API adds.
func TestAnswerIsJSON(t *testing.T) {
	jsonPatch := admissionv1.PatchTypeJSONPatch
	kind := metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1beta1"}
	full := admissionv1.AdmissionResponse{
		UID: "a<b>", Allowed: true, Result: &metav1.Status{Code: 422, Message: "no\n\"x\" & é", Details: &metav1.StatusDetails{Name: "web"}},
		Patch: []byte(`[{"op":"remove","path":"/a"}]`), PatchType: &jsonPatch,
		AuditAnnotations: map[string]string{"z": "last", "a": "<first>", "m": "\u2028\x00"}, Warnings: []string{"one", "", "\xff two"},
	}
	wantEncoded(t, kind, &full)
	wantEncoded(t, kind, &admissionv1.AdmissionResponse{AuditAnnotations: map[string]string{}, Warnings: []string{}, Patch: []byte{}})
	all := reflect.ValueOf(full)
	for i := range all.NumField() {
		if all.Field(i).IsZero() {
			t.Fatalf("the test sets no %s", all.Type().Field(i).Name)
		}
		var one admissionv1.AdmissionResponse
		reflect.ValueOf(&one).Elem().Field(i).Set(all.Field(i))
		wantEncoded(t, kind, &one)
	}
}

// FuzzAnswerIsJSON does the same for any text.
func FuzzAnswerIsJSON(f *testing.F) {
	f.Add("a", "b", []byte("c"))
	f.Add("\u2029<>&\"\\", "\xff\xf0\x9f", []byte{})
	f.Fuzz(func(t *testing.T, one, other string, patch []byte) {
		wantEncoded(t, metav1.TypeMeta{Kind: one + "k", APIVersion: other + "v"}, &admissionv1.AdmissionResponse{
			UID: types.UID(one), Patch: patch, AuditAnnotations: map[string]string{one: other, other: one}, Warnings: []string{one, other},
		})
	})
}
