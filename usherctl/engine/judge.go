package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/yaml"
)

var infos = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// Judge returns the API server's verdict of a request.
func (e *Engine) Judge(ctx context.Context, r Request) Verdict {
	asked := &asked{Request: r, engine: e}
	made, err := asked.http()
	if errors.Is(err, errNoKind) && slices.Contains(answering, asked.Kind.Group) {
		return Verdict{Code: http.StatusCreated, Unjudged: []string{fmt.Sprintf("a %s is answered by the cluster's own authenticators and authorizers: "+
			"its answer is not known", asked.Kind.Kind)}}
	}
	if errors.Is(err, errNoKind) {
		return refused(http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
	}
	if err != nil {
		return refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	if e.chain != nil && asked.Kind == corev1.SchemeGroupVersion.WithKind("Service") {
		e.registries.addresses.Do(func() { e.registries.awaitAddresses(ctx) })
	}
	info, err := infos.NewRequestInfo(made)
	if err != nil {
		return refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	ctx = request.WithUser(context.WithValue(ctx, requestKey{}, asked), &user.DefaultInfo{Name: r.User, Groups: r.Groups})
	ctx = request.WithRequestInfo(warning.WithWarningRecorder(ctx, asked), info)
	answer := httptest.NewRecorder()
	e.handler(info).ServeHTTP(answer, made.WithContext(ctx))
	return asked.verdict(answer)
}

// awaitAddresses waits, for at most five seconds, until the allocator of the addresses of Services works: it tells nobody.
func (r *registries) awaitAddresses(ctx context.Context) {
	bare := &Engine{registries: r, state: &state{}, hosts: strings.NewReplacer()} // without admission
	service := []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"first"},"spec":{"ports":[{"port":80}]}}`)
	for range 1000 {
		if ctx.Err() != nil || bare.Judge(ctx, Request{Operation: admissionv1.Create, Object: service}).Allowed() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

var errNoKind = errors.New("no matches for kind")

// answering are the groups whose objects are questions to the API server, such as TokenReview.
var answering = []string{"authentication.k8s.io", "authorization.k8s.io"}

func refused(code int, reason metav1.StatusReason, message string) Verdict {
	return Verdict{Code: code, Refusal: &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}}
}

// handler returns the API server's handler for a request.
func (e *Engine) handler(info *request.RequestInfo) http.Handler {
	version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	group, known := e.registries.groups[version]
	if !known {
		return e.custom
	}
	handler, err := group.handler()
	if err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		})
	}
	return handler
}

// http returns the HTTP request, as a client sends it.
func (r *asked) http() (*http.Request, error) {
	object := &unstructured.Unstructured{}
	if len(r.Object) > 0 {
		if err := decode(r.Object, &object.Object); err != nil {
			return nil, err
		}
	}
	if r.Kind.Empty() {
		r.Kind = object.GroupVersionKind()
	}
	k, known := r.engine.kindOf(r.Kind)
	if !known {
		return nil, fmt.Errorf("%w %q in version %q", errNoKind, r.Kind.Kind, r.Kind.GroupVersion())
	}
	if r.Name == "" {
		r.Name = object.GetName()
	}
	if r.Name == "" && r.Operation == admissionv1.Create {
		r.prefix = object.GetGenerateName()[:min(len(object.GetGenerateName()), maxPrefix)]
	}
	if object.GetNamespace() != "" && (r.SubResource == "" || r.Namespace == "") {
		r.Namespace = object.GetNamespace()
	}
	if !k.namespaced {
		r.Namespace = ""
	} else if r.Namespace == "" {
		r.Namespace = metav1.NamespaceDefault
	}
	if err := r.bring(k); err != nil {
		return nil, err
	}
	return r.request(k, object)
}

// decode reads JSON or YAML. The parser of YAML reads JSON, too, at a quarter of the allocations of a verdict.
func decode(text []byte, into *map[string]any) error {
	if json.Valid(text) {
		return json.Unmarshal(text, into)
	}
	return yaml.Unmarshal(text, into)
}

// bring makes the stored object that the request has.
func (r *asked) bring(k kind) error {
	if r.New {
		r.key = keyOf(k.resource.GroupResource(), r.Namespace, r.Name)
	}
	if len(r.Old) == 0 {
		return nil
	}
	old := &unstructured.Unstructured{}
	if err := decode(r.Old, &old.Object); err != nil {
		return fmt.Errorf("the stored object: %w", err)
	}
	if k.namespaced && old.GetNamespace() == "" {
		old.SetNamespace(r.Namespace)
	}
	complete(old)
	var err error
	r.key = keyOf(k.resource.GroupResource(), r.Namespace, r.Name)
	r.old, err = json.Marshal(old)
	return err
}

// maxPrefix is how much of a generateName is in the names that are made of it.
const maxPrefix = 63 - 5

var methods = map[admissionv1.Operation]string{admissionv1.Create: http.MethodPost, admissionv1.Update: http.MethodPut,
	admissionv1.Delete: http.MethodDelete, admissionv1.Connect: http.MethodPost}

func (r *asked) request(k kind, object *unstructured.Unstructured) (*http.Request, error) {
	path := root(k.resource.Group) + "/" + k.resource.GroupVersion().String()
	if k.namespaced {
		path += "/namespaces/" + url.PathEscape(r.Namespace)
	}
	path += "/" + k.resource.Resource
	if r.Operation != admissionv1.Create || r.SubResource != "" {
		path += "/" + url.PathEscape(r.Name)
	}
	if r.SubResource != "" {
		path += "/" + r.SubResource
	}
	query := url.Values{"dryRun": {metav1.DryRunAll}, "fieldManager": {"usherctl"}, "fieldValidation": {metav1.FieldValidationWarn}}
	if r.Strict {
		query.Set("fieldValidation", metav1.FieldValidationStrict)
	}
	body := r.Object
	switch r.Operation {
	case admissionv1.Connect:
		var err error
		if query, err = connectOptions(object); err != nil {
			return nil, err
		}
		body = nil
	case admissionv1.Delete:
		query.Del("fieldManager")
		query.Del("fieldValidation")
		body = dryOptions(object)
	}
	made, err := http.NewRequest(methods[r.Operation], "https://"+loopbackHost+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	made.RequestURI = made.URL.RequestURI()
	made.Header.Set("Content-Type", "application/yaml")
	if len(body) == 0 || json.Valid(body) {
		made.Header.Set("Content-Type", "application/json")
	}
	made.Header.Set("Accept", "application/json")
	return made, nil
}

// dryOptions returns the options of a DELETE as those of a dry run, which are in the body if there is one; nil for none.
func dryOptions(object *unstructured.Unstructured) []byte {
	if len(object.Object) == 0 {
		return nil
	}
	object.Object["dryRun"] = []string{metav1.DryRunAll}
	text, _ := json.Marshal(object.Object)
	return text
}

// connectOptions returns the options of a CONNECT, such as PodExecOptions, as a client sends them.
func connectOptions(object *unstructured.Unstructured) (url.Values, error) {
	if len(object.Object) == 0 {
		return url.Values{}, nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	options, gvk, err := legacyscheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	return legacyscheme.ParameterCodec.EncodeParameters(options, gvk.GroupVersion())
}

// verdict returns the verdict that an HTTP response is.
func (r *asked) verdict(answer *httptest.ResponseRecorder) (v Verdict) {
	defer func() { r.keep(&v) }()
	v = Verdict{Code: answer.Code, Warnings: r.warnings, Calls: r.inOrder(), Plugins: r.plugins}
	for _, call := range v.Calls {
		if errors.Is(call.Err, ErrNoAnswer) {
			v.Unjudged = append(v.Unjudged, fmt.Sprintf("webhook %s of %s: %v", call.Name, call.Configuration, call.Err))
		}
	}
	body := answer.Body.Bytes()
	if answer.Code < http.StatusBadRequest {
		v.Object = r.withoutChance(body)
		if answer.Code == http.StatusCreated { // by an UPDATE, too
			v.Unjudged = append(v.Unjudged, r.addresses()...)
		}
		return v
	}
	if r.Operation == admissionv1.Connect && r.admitted && connects(body) {
		v.Code = http.StatusSwitchingProtocols
		return v
	}
	v.By, v.Refusal = r.by, &metav1.Status{}
	if json.Unmarshal(body, v.Refusal) != nil || v.Refusal.Status == "" {
		v.Refusal = refused(answer.Code, metav1.StatusReasonUnknown, strings.TrimSpace(string(body))).Refusal
	}
	v.Refusal.Message = r.engine.hosts.Replace(v.Refusal.Message)
	return v
}

// addresses says that the address of a new Service, if it asks for one, may not be in the cluster's range, or not be free.
func (r *asked) addresses() []string {
	var service corev1.Service
	if r.Kind != corev1.SchemeGroupVersion.WithKind("Service") || yaml.Unmarshal(r.Object, &service) != nil ||
		service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	return []string{fmt.Sprintf("spec.clusterIP: whether %s is in the range of the cluster's Services, and free, is not known", service.Spec.ClusterIP)}
}

// connects reports whether an API server that refuses to connect has admitted the request, and only misses what the engine has not:
// a connection that it can take over, and a kubelet.
func connects(body []byte) bool {
	return bytes.Contains(body, []byte("pgrade request required")) || bytes.Contains(body, []byte("the engine has no network"))
}

// withoutChance returns an object without its managedFields, which depend on who sends it, and with a stable name.
func (r *asked) withoutChance(text []byte) json.RawMessage {
	var object, metadata map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || json.Unmarshal(object["metadata"], &metadata) != nil || metadata == nil {
		return bytes.Clone(text)
	}
	delete(metadata, "managedFields")
	if name := metadata["name"]; r.prefix != "" && name != nil {
		metadata["name"] = json.RawMessage(r.stable(string(name)))
	}
	without, err := json.Marshal(metadata)
	if err == nil {
		object["metadata"] = without
		without, err = json.Marshal(object)
	}
	if err != nil {
		return bytes.Clone(text)
	}
	return without
}

// stable returns a text with a name that is made of a generateName always ending alike: the same request has the same verdict.
func (r *asked) stable(text string) string {
	if r.prefix == "" {
		return text
	}
	return regexp.MustCompile(regexp.QuoteMeta(r.prefix)+"[bcdfghjklmnpqrstvwxz2456789]{5}").ReplaceAllString(text, r.prefix+"x7k2p")
}

// uidOf returns a UID that an object always has.
func uidOf(of string) types.UID {
	sum := sha256.Sum256([]byte(of))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}
