// Package review sends manifests and AdmissionReviews through the routes without a server, as an API server would, and
// shows what becomes of them.
package review

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/document"
	"usher.dev/usher/manifest"
)

// Options say how a manifest is sent: what an AdmissionReview knows and a manifest does not.
type Options struct {
	Operation   admissionv1.Operation
	SubResource string
	User        string
	Groups      []string
	Namespace   string // for namespaced objects that name none
	DryRun      bool
	Old         json.RawMessage // the stored object of an UPDATE; empty: the same object
}

// Document is one object of a file, as JSON.
type Document struct {
	Source string // file, and which document of it
	JSON   []byte
}

// Read reads the objects of a file: see manifest.Read. The source "-" is standard input.
func Read(source string, in io.Reader) ([]Document, error) {
	if source == "-" {
		source = "standard input"
	}
	content, err := io.ReadAll(io.LimitReader(in, manifest.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	if len(content) > manifest.MaxBytes {
		return nil, fmt.Errorf("%s: larger than %d MiB", source, manifest.MaxBytes>>20)
	}
	objects, problems := manifest.Read(source, content)
	switch {
	case len(problems) > 0:
		return nil, errors.Join(problems...)
	case len(objects) == 0:
		return nil, fmt.Errorf("%s: holds no object", source)
	case len(objects) == 1:
		return []Document{{source, objects[0].JSON}}, nil
	}
	documents := make([]Document, len(objects))
	for i, o := range objects {
		documents[i] = Document{o.Place.Brief(), o.JSON}
	}
	return documents, nil
}

// AsReview gives the AdmissionReview that an API server would send for a document; a document that is one stays as it is.
func AsReview(d Document, o Options) ([]byte, error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(d.JSON, &object.Object); err != nil {
		return nil, err
	}
	if object.GetKind() == "AdmissionReview" {
		return d.JSON, nil
	}
	raw := d.JSON
	if namespaced(object) && object.GetNamespace() == "" && o.Namespace != "" {
		object.SetNamespace(o.Namespace) // the API server fills it in before admission
		filled, err := document.Parse(raw)
		if err != nil {
			return nil, err
		}
		filled.Root().At("metadata", "namespace").Set(o.Namespace)
		raw = filled.Bytes()
	}
	return json.MarshalIndent(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request:  request(object, raw, o),
	}, "", "  ")
}

func request(object *unstructured.Unstructured, raw []byte, o Options) *admissionv1.AdmissionRequest {
	gvk := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	kind, resource := metav1.GroupVersionKind(gvk), metav1.GroupVersionResource(plural)
	req := &admissionv1.AdmissionRequest{
		UID: uid(raw, o), Kind: kind, Resource: resource, SubResource: o.SubResource,
		RequestKind: &kind, RequestResource: &resource, RequestSubResource: o.SubResource,
		Name: object.GetName(), Namespace: object.GetNamespace(), Operation: o.Operation,
		UserInfo: authenticationv1.UserInfo{Username: o.User, Groups: o.Groups},
		Object:   runtime.RawExtension{Raw: raw}, DryRun: &o.DryRun,
	}
	switch o.Operation {
	case admissionv1.Update:
		req.OldObject.Raw = raw
		if len(o.Old) > 0 {
			req.OldObject.Raw = o.Old
		}
	case admissionv1.Delete:
		req.Object, req.OldObject = runtime.RawExtension{}, req.Object
	}
	return req
}

// uid looks like the API server's, but the same review always has the same one.
func uid(raw []byte, o Options) types.UID {
	sum := sha256.Sum256(append(raw, string(o.Operation)...))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// namespaced reports whether objects of a kind live in namespaces, for the kinds that usher knows of.
func namespaced(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "Node", "Namespace", "Reservation", "ClusterColocationProfile":
		return false
	}
	return true
}
