package handlers

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// ReadReview reads an AdmissionReview of v1 or v1beta1, and returns its type, for the answer, and its request. An error
// is the caller's fault. The request refers to body, which must not change while the request is in use.
func ReadReview(body []byte) (metav1.TypeMeta, *admit.Request, error) {
	review, err := document.Parse(body)
	if err != nil {
		return metav1.TypeMeta{}, nil, badReview("the body is not an AdmissionReview: %v", err)
	}
	kind, err := readType(review.Root())
	if err != nil {
		return kind, nil, err
	}
	req := readRequest(review)
	if err := review.Err(); err != nil {
		return kind, nil, badReview("%v", err)
	}
	return kind, req, check(req)
}

func readType(root *document.Value) (metav1.TypeMeta, error) {
	kind := typeOf(root)
	version, ok := strings.CutPrefix(kind.APIVersion, "admission.k8s.io/")
	if kind.Kind != "AdmissionReview" || !ok || version != "v1" && version != "v1beta1" {
		return kind, badReview("kind %.60q of apiVersion %.60q is not an AdmissionReview of admission.k8s.io/v1; "+
			"`usherctl review -o review FILE` makes one from a manifest", kind.Kind, kind.APIVersion)
	}
	return kind, nil
}

func typeOf(root *document.Value) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: textOf(root.Get("apiVersion")), Kind: textOf(root.Get("kind"))}
}

// readRequest decodes the small fields and leaves the objects as they are. A field of the wrong type sets the error of
// the review.
func readRequest(review *document.Document) *admit.Request {
	root := review.Root().Get("request")
	text := func(path ...string) string { return textOf(root.At(path...)) }
	return &admit.Request{
		Review: review,
		UID:    types.UID(text("uid")),
		Kind:   metav1.GroupVersionKind{Group: text("kind", "group"), Version: text("kind", "version"), Kind: text("kind", "kind")},
		Resource: metav1.GroupVersionResource{
			Group: text("resource", "group"), Version: text("resource", "version"), Resource: text("resource", "resource"),
		},
		SubResource: text("subResource"),
		Operation:   admissionv1.Operation(text("operation")),
		Name:        text("name"),
		Namespace:   text("namespace"),
		UserInfo:    readUser(root.Get("userInfo")),
		DryRun:      flagOf(root.Get("dryRun")),
		Object:      root.Get("object").Sub(),
		OldObject:   root.Get("oldObject").Sub(),
	}
}

// readUser reads what the API server knows of the user.
func readUser(user *document.Value) authenticationv1.UserInfo {
	u := authenticationv1.UserInfo{Username: textOf(user.Get("username")), UID: textOf(user.Get("uid")), Groups: textsOf(user.Get("groups"))}
	if extra := user.Get("extra"); extra.Exists() && extra.Decodable() { // or its handles could take too much memory
		u.Extra = map[string]authenticationv1.ExtraValue{}
		for key, values := range extra.Members() {
			u.Extra[key] = textsOf(values)
		}
	}
	return u
}

// textsOf returns the elements of an array of strings; nil if there are none.
func textsOf(array *document.Value) (texts []string) {
	all := array.List()
	texts = slices.Grow(texts, len(all))
	for _, element := range all {
		texts = append(texts, textOf(element))
	}
	return texts
}

// words are texts that most reviews have. Reading one of them makes no object; this saves a fifth of a review's.
var words = map[string]string{
	`"AdmissionReview"`: "AdmissionReview", `"admission.k8s.io/v1"`: "admission.k8s.io/v1", `"v1"`: "v1", `"Pod"`: "Pod", `"pods"`: "pods",
	`"Node"`: "Node", `"nodes"`: "nodes", `"status"`: "status", `"CREATE"`: "CREATE", `"UPDATE"`: "UPDATE", `"DELETE"`: "DELETE",
	`"system:nodes"`: "system:nodes", `"system:authenticated"`: "system:authenticated", `"system:serviceaccounts"`: "system:serviceaccounts",
}

// textOf returns the text of a string; "" for an absent value.
func textOf(v *document.Value) string {
	if word, ok := words[string(v.Bytes())]; ok {
		return word
	}
	return v.Text()
}

// flagOf returns a boolean; false for an absent value.
func flagOf(v *document.Value) bool {
	if kind := v.Kind(); kind == document.True || kind == document.False {
		return kind == document.True
	}
	return document.As[bool](v) // is absent, or an error
}

// maxUID is well above the 36 characters of a UID.
const maxUID = 256

var operations = []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect}

// check returns an error if a request lacks what an answer needs.
func check(req *admit.Request) error {
	switch {
	case req.UID == "":
		return badReview("request.uid is missing: is there a request?")
	case len(req.UID) > maxUID:
		return badReview("request.uid is longer than %d characters", maxUID)
	case !slices.Contains(operations, req.Operation):
		return badReview("request.operation is %.60q: must be one of %v", req.Operation, operations)
	case req.Object == nil && (req.Operation == admissionv1.Create || req.Operation == admissionv1.Update):
		return badReview("request.object is missing")
	case req.Object == nil:
		return nil
	case req.OldObject == nil && req.Operation == admissionv1.Update && req.ResourceName() != "nodes/status":
		return badReview("request.oldObject is missing: an UPDATE has the stored object, too; " +
			"`usherctl review --operation UPDATE --old STORED -o review FILE` makes such a review")
	}
	root := req.Object.Root()
	if root.Get("raw").Exists() && !root.Get("metadata").Exists() {
		return badReview("request.object is {\"raw\": …}, as Go programs print it; in an AdmissionReview the object is inline JSON")
	}
	return checkKind(req, typeOf(root))
}

// checkKind compares request.kind with the type in the object. Either may be missing in hand-written reviews.
func checkKind(req *admit.Request, object metav1.TypeMeta) error {
	if err := req.Object.Err(); err != nil {
		return badReview("request.object: %v", err)
	}
	says := metav1.GroupVersionKind(object.GroupVersionKind())
	switch {
	case req.Kind.Kind == "" && says.Kind == "":
		return badReview("request.kind is missing")
	case req.Kind.Kind == "":
		req.Kind = says
	case says.Kind != "" && says != req.Kind:
		return badReview("request.kind is %s, but the object is a %s", admit.KindText(req.Kind), admit.KindText(says))
	}
	return nil
}
