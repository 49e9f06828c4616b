package requests

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit/document"
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

// GroupsOf returns the groups that the API server gives a user who has no others.
func GroupsOf(user string) []string {
	if strings.HasPrefix(user, "system:node:") {
		return []string{"system:nodes", "system:authenticated"}
	}
	return []string{"system:authenticated"}
}

// asController returns the options of a request by which a controller creates a pod.
func (o Options) asController(account string) Options {
	o.Operation, o.SubResource, o.Old = admissionv1.Create, "", nil
	if account != "" {
		o.User = "system:serviceaccount:kube-system:" + account
		o.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
	}
	return o
}

// AsReview returns the AdmissionReview that an API server would send for a document; a document that is one stays as it is.
func AsReview(d Document, o Options, kinds Catalogue) ([]byte, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(d.JSON, &object.Object); err != nil {
		return nil, err
	}
	if object.GetKind() == "AdmissionReview" {
		return d.JSON, nil
	}
	if object.GroupVersionKind().Group == "kustomize.config.k8s.io" {
		return nil, errors.New("a kustomization, which no API server knows; review what is made of it: kubectl kustomize DIR | usherctl review -")
	}
	if err := errors.Join(kinds.Check(object.GroupVersionKind()), d.checkWorkload(kinds)); err != nil {
		return nil, err
	}
	switch {
	case d.Of != "":
		o = o.asController(d.Controller)
	case len(d.Old) > 0:
		o.Operation, o.Old = admissionv1.Update, d.Old
	}
	raw, err := inNamespace(d, object, o.Namespace, kinds)
	if err != nil {
		return nil, err
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request:  request(object, raw, o),
	})
}

// checkWorkload returns an error for a pod of a workload that no API server can have, see Catalogue.Check.
func (d Document) checkWorkload(kinds Catalogue) error {
	workload := &unstructured.Unstructured{}
	if d.Workload == nil || json.Unmarshal(d.Workload, &workload.Object) != nil {
		return nil
	}
	return kinds.Check(workload.GroupVersionKind())
}

// inNamespace returns the object with the namespace that the API server fills in before admission. object gets it, too.
func inNamespace(d Document, object *unstructured.Unstructured, namespace string, kinds Catalogue) ([]byte, error) {
	if object.GetNamespace() != "" || namespace == "" || !kinds.Namespaced(object.GroupVersionKind().GroupKind()) {
		return d.JSON, nil
	}
	object.SetNamespace(namespace)
	filled, err := document.Parse(d.JSON)
	if err != nil {
		return nil, err
	}
	filled.Root().At("metadata", "namespace").Set(namespace)
	return filled.Bytes(), nil
}

func request(object *unstructured.Unstructured, raw []byte, o Options) *admissionv1.AdmissionRequest {
	gvk := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	kind, resource := metav1.GroupVersionKind(gvk), metav1.GroupVersionResource(plural)
	if kind, resource, raw = ofSubresource(kind, resource, o.SubResource, object, raw); kind != metav1.GroupVersionKind(gvk) {
		o.Old = nil
	}
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
