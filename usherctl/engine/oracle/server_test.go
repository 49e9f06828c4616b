// Package oracle compares the engine with a whole API server: both judge the same requests over the same objects.
//
//	server_test.go     the API server, one for all tests
//	answer_test.go     answers in a form to compare, and their differences
//	draw_test.go       random changes of objects, from the OpenAPI of their kinds
//	random_test.go     random creations, updates, deletions and requests for subresources, of all kinds
//	quota_test.go      random ResourceQuotas, and what is stored one after the other
//	start_test.go      the same in older versions of Kubernetes
//	cases_test.go      corners and custom resources: requests of testdata
//	policies_test.go   random admission policies
//	webhooks_test.go   random webhooks
//	scenes_test.go     samples, lessons and cases as requests
//	samples_test.go    them, with usher's webhooks
package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/engine"
)

// server is the API server that judges beside the engine: one for all tests of this process.
type server struct {
	url    string
	client *http.Client
	kinds  map[schema.GroupVersionKind]metav1.APIResource
	subs   map[schema.GroupVersionKind][]metav1.APIResource // the subresources that have objects
}

var apiServer = sync.OnceValues(func() (*server, error) {
	config, err := start()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	s := &server{url: strings.TrimSuffix(config.Host, "/"), client: client}
	if err := eventually(func() error { _, err := s.get("/readyz"); return err }); err != nil {
		return nil, err
	}
	return s, s.discover()
})

// theServer returns the API server, which has the objects of testdata/cluster.yaml and testdata/kinds.yaml.
func theServer(t *testing.T) *server {
	t.Helper()
	s, err := apiServer()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func eventually(try func() error) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *server) get(path string) ([]byte, error) {
	code, _, body, err := s.do(http.MethodGet, path, nil, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("GET %s: %d %s", path, code, body)
	}
	return body, err
}

func (s *server) do(method, path string, header http.Header, body []byte) (code int, warnings []string, answer []byte, err error) {
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader(body)) //nolint:noctx // as long as the process
	if err != nil {
		return 0, nil, nil, err
	}
	if header != nil {
		request.Header = header
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	heads, _ := utilnet.ParseWarningHeaders(response.Header["Warning"])
	for _, h := range heads {
		warnings = append(warnings, h.Text)
	}
	return response.StatusCode, warnings, answer, err
}

// discover learns the kinds that are served.
func (s *server) discover() error {
	s.kinds, s.subs = map[schema.GroupVersionKind]metav1.APIResource{}, map[schema.GroupVersionKind][]metav1.APIResource{}
	var groups metav1.APIGroupList
	if err := s.read("/apis", &groups); err != nil {
		return err
	}
	versions := []string{"v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, v.GroupVersion)
		}
	}
	for _, v := range versions {
		var list metav1.APIResourceList
		if err := s.read(root(v), &list); err != nil {
			return err
		}
		of, _ := schema.ParseGroupVersion(v)
		parents := map[string]schema.GroupVersionKind{}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				s.kinds[of.WithKind(r.Kind)], parents[r.Name] = r, of.WithKind(r.Kind)
			}
		}
		for _, r := range list.APIResources {
			name, sub, _ := strings.Cut(r.Name, "/")
			if (can(r, "create") || can(r, "update")) && sub != "" && !strings.HasSuffix(r.Kind, "Options") {
				s.subs[parents[name]] = append(s.subs[parents[name]], r)
			}
		}
	}
	return nil
}

func (s *server) read(path string, into any) error {
	body, err := s.get(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func root(version string) string {
	if version == "v1" {
		return "/api/v1"
	}
	return "/apis/" + version
}

// storekeeper is who stores objects: usher lets them be.
const storekeeper = "storekeeper"

// store creates an object, in the place of one that is there, and writes its status. A Namespace that is there is changed.
func (s *server) store(object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	object.SetResourceVersion("")
	err := s.create(object)
	if apierrors.IsAlreadyExists(err) {
		if object.GetKind() == "Namespace" {
			err = s.write(object, admissionv1.Update, "")
		} else if _, err = s.request(removal(object), false); err == nil {
			err = s.create(object)
		}
	}
	if status, has := object.Object["status"]; has && err == nil {
		return s.storeStatus(object, status)
	}
	return err
}

// create creates an object that is not there.
func (s *server) create(object *unstructured.Unstructured) error {
	return s.write(object, admissionv1.Create, "")
}

func (s *server) write(object *unstructured.Unstructured, operation admissionv1.Operation, subresource string) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	r := engine.Request{Object: text, Operation: operation, SubResource: subresource, User: storekeeper}
	if subresource != "" {
		r.Kind, r.Name, r.Namespace = object.GroupVersionKind(), object.GetName(), object.GetNamespace()
	}
	a, err := s.request(s.asKubectl(r), false)
	if err == nil && a.Code >= 300 {
		err = &apierrors.StatusError{ErrStatus: metav1.Status{Reason: a.Reason, Message: fmt.Sprintf("%s %s: %s", object.GetKind(), object.GetName(), a)}}
	}
	return err
}

// remove deletes the object, if it is stored.
func (s *server) remove(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if a, err := s.request(removal(object), false); err != nil || a.Code != http.StatusOK && a.Code != http.StatusNotFound {
		t.Error(err, a)
	}
}

func removal(object *unstructured.Unstructured) engine.Request {
	return engine.Request{Operation: admissionv1.Delete, Kind: object.GroupVersionKind(), Name: object.GetName(), Namespace: object.GetNamespace(),
		User: storekeeper, Object: []byte(`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`)}
}

// storeStatus writes the status of a stored object.
func (s *server) storeStatus(object *unstructured.Unstructured, status any) error {
	current, err := s.stored(object)
	if err != nil {
		return err
	}
	current.Object["status"] = status
	return s.write(current, admissionv1.Update, "status")
}

// stored reads an object.
func (s *server) stored(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	path, _, err := s.path(engine.Request{Kind: object.GroupVersionKind(), Name: object.GetName(), Namespace: object.GetNamespace()})
	if err != nil {
		return nil, err
	}
	stored := &unstructured.Unstructured{}
	return stored, s.read(path, &stored.Object)
}

// list returns all objects of the kinds that can be created.
func (s *server) list() (all []*unstructured.Unstructured, err error) {
	for kind, r := range s.kinds {
		if !can(r, "create") || !can(r, "list") || kind.Group == "events.k8s.io" {
			continue
		}
		list := unstructured.UnstructuredList{}
		body, err := s.get(root(kind.GroupVersion().String()) + "/" + r.Name)
		if err != nil {
			return nil, err
		}
		if err := list.UnmarshalJSON(body); err != nil {
			return nil, err
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}

func can(r metav1.APIResource, verb string) bool {
	for _, v := range r.Verbs {
		if v == verb {
			return true
		}
	}
	return false
}

// judge sends a request as a dry run.
func (s *server) judge(r engine.Request) (answer, error) { return s.request(r, true) }

func (s *server) request(r engine.Request, dry bool) (answer, error) {
	path, method, err := s.path(r)
	if err != nil {
		return answer{}, err
	}
	path += "?fieldManager=tests"
	if method == http.MethodDelete || r.Operation == admissionv1.Connect {
		path = strings.TrimSuffix(path, "?fieldManager=tests") + "?"
	}
	if dry && r.Operation != admissionv1.Connect { // which knows no dry run
		path += "&dryRun=All"
	}
	if r.Strict && method != http.MethodDelete {
		path += "&fieldValidation=Strict"
	}
	code, warnings, body, err := s.do(method, path, headers(r), r.Object)
	if err != nil {
		return answer{}, err
	}
	return newAnswer(code, warnings, body)
}

func headers(r engine.Request) http.Header {
	h := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/yaml"}}
	if bytes.HasPrefix(bytes.TrimSpace(r.Object), []byte("{")) || len(r.Object) == 0 {
		h.Set("Content-Type", "application/json")
	}
	if r.User != "" {
		h.Set("Impersonate-User", r.User)
	}
	for _, g := range r.Groups {
		h.Add("Impersonate-Group", g)
	}
	return h
}

// path returns the path and the method of a request.
func (s *server) path(r engine.Request) (path, method string, err error) {
	kind, name, namespace := r.Kind, r.Name, r.Namespace
	if kind.Kind == "" {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal(r.Object, &u.Object); err != nil {
			return "", "", err
		}
		kind, name = u.GroupVersionKind(), u.GetName()
		if in := u.GetNamespace(); in != "" {
			namespace = in
		}
	}
	resource, served := s.kinds[kind]
	if !served {
		return "", "", fmt.Errorf("kind %s is not served", kind)
	}
	path = root(kind.GroupVersion().String())
	if resource.Namespaced {
		path += "/namespaces/" + url.PathEscape(orDefault(namespace))
	}
	path += "/" + resource.Name
	method = map[admissionv1.Operation]string{admissionv1.Create: http.MethodPost, admissionv1.Update: http.MethodPut,
		admissionv1.Delete: http.MethodDelete, admissionv1.Connect: http.MethodPost}[r.Operation]
	if r.Operation != admissionv1.Create || r.SubResource != "" {
		path += "/" + url.PathEscape(name)
	}
	if r.SubResource != "" {
		path += "/" + r.SubResource
	}
	return path, method, nil
}

func orDefault(namespace string) string {
	if namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}
