// Package review sends manifests and AdmissionReviews through the routes without a server, as an API server would, and
// shows what becomes of them.
package review

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/document"
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

// Read splits a file into its objects: YAML or JSON, one or many documents, and the items of lists.
func Read(source string, in io.Reader) ([]Document, error) {
	if source == "-" {
		source = "standard input"
	}
	reader := kyaml.NewYAMLReader(bufio.NewReader(in))
	var documents []Document
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		where := fmt.Sprintf("%s, document %d", source, n)
		found, err := objects(where, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		documents = append(documents, found...)
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s: holds no object", source)
	}
	if len(documents) == 1 {
		documents[0].Source = source
	}
	return documents, nil
}

// objects reads one YAML document: nothing, one object, a list of them, or several JSON objects one after the other.
func objects(where string, text []byte) ([]Document, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return jsonObjects(where, text)
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil || string(raw) == "null" {
		return nil, err
	}
	return items(where, raw)
}

func jsonObjects(where string, text []byte) (documents []Document, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			if converted, yamlErr := yaml.YAMLToJSONStrict(text); yamlErr == nil { // YAML in flow style begins with a brace too
				return items(where, converted)
			}
			return nil, err
		}
		found, err := items(where, raw)
		if err != nil {
			return nil, err
		}
		documents = append(documents, found...)
	}
}

func items(where string, raw []byte) ([]Document, error) {
	if _, err := document.Parse(raw); err != nil { // a server would refuse a duplicate key too
		return nil, err
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("not a Kubernetes object: not a mapping with apiVersion and kind")
	}
	if list.Kind == "" || list.APIVersion == "" {
		return nil, errors.New("not a Kubernetes object: apiVersion or kind is missing")
	}
	if list.Items == nil || !strings.HasSuffix(list.Kind, "List") {
		return []Document{{where, raw}}, nil
	}
	var documents []Document
	for i, item := range list.Items {
		item = withType(item, list.APIVersion, strings.TrimSuffix(list.Kind, "List"))
		found, err := items(fmt.Sprintf("%s, item %d", where, i+1), item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		documents = append(documents, found...)
	}
	return documents, nil
}

// withType gives the item of a list such as PodList, which need not say what it is, its type.
func withType(item json.RawMessage, apiVersion, kind string) json.RawMessage {
	d, err := document.Parse(item)
	if err != nil || kind == "" || d.Root().Get("kind").Exists() {
		return item
	}
	d.Root().Get("apiVersion").Set(apiVersion)
	d.Root().Get("kind").Set(kind)
	return d.Bytes()
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

// namespaced tells whether objects of a kind live in namespaces, for the kinds that usher knows of.
func namespaced(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "Node", "Namespace", "Reservation", "ClusterColocationProfile":
		return false
	}
	return true
}
