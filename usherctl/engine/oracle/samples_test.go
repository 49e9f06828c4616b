package oracle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"usher.dev/usher/routes"
	"usher.dev/usher/samples"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/engine"
)

// TestSamples: samples, lessons and manifests of the tree end as in an API server in which usher is registered.
func TestSamples(t *testing.T) {
	s := theServer(t)
	t.Chdir("../../..")
	s.storeAll(t, "deploy/crds/*.yaml")
	s.storeAll(t, "samples/cluster/*.yaml")
	byPolicy := map[string][]drawn{"": s.manifests(t, "samples", "usherctl/learn/lessons", "deploy/demo")}
	for _, sample := range samples.Shelf() {
		if r, err := s.sample(sample); err == nil {
			byPolicy[sample.Policy] = append(byPolicy[sample.Policy], r)
		}
	}
	usher := &served{}
	usher.url, usher.ca = endpoint(t, usher.answer)
	of := slices.Sorted(maps.Keys(byPolicy))
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	for i, policy := range of {
		if i > 0 && newDrawer(seed, 5_000_000+uint64(i)).IntN(400) > int(draws) {
			continue // a short run has a few of the policies
		}
		usher.compare(t, s, policy, byPolicy[policy])
	}
}

// served is usher under one policy after the other.
type served struct {
	http.Handler
	url string
	ca  []byte
}

func (u *served) answer(path string, review []byte) (int, []byte) {
	if strings.HasPrefix(path, "/last/") {
		return answered(path, review)
	}
	recorder, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, bytes.NewReader(review))
	r.Header.Set("Content-Type", "application/json")
	u.ServeHTTP(recorder, r)
	return recorder.Code, recorder.Body.Bytes()
}

// compare judges the requests while usher with a policy is registered.
func (u *served) compare(t *testing.T, s *server, policy string, requests []drawn) {
	t.Helper()
	in := usherOf(t, policy)
	u.Handler = harness.DefaultServer().Serve(in.Routes())
	called, at := webhooks.OneAmplifier(in.Routes()), webhooks.Address{Namespace: "usher", Service: "usher", URL: u.url, CABundle: u.ca}
	for _, configuration := range s.register(t, webhooks.Mutating(called, at), webhooks.Validating(called, at)) {
		defer s.remove(t, configuration)
	}
	if err := s.called(t, u.url, u.ca, fmt.Sprintf("last-%x", sha256.Sum224([]byte(policy)))); err != nil {
		t.Fatal(err)
	}
	cluster, err := s.list()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, s, engine.Cluster{Objects: cluster, Webhook: webhookOf(u.answer)}, requests)
}

func usherOf(t *testing.T, text string) suite.Instance {
	t.Helper()
	all := routes.Suites()
	policy := harness.DefaultPolicy(t, all)
	if text != "" {
		policy = harness.ParsePolicy(t, all, []byte(text))
	}
	return harness.OpenInstance(t, all, harness.DemoGates(t, all), policy)
}

// storeAll stores the objects of files whose kinds are served, but no webhooks.
func (s *server) storeAll(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(pattern, err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		objects, err := documents(file)
		if err != nil && !strings.Contains(err.Error(), "Object 'Kind' is missing") {
			t.Fatal(file, err)
		}
		all = append(all, objects...)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return cmp.Compare(order(a), order(b)) })
	for _, o := range all {
		if _, served := s.kinds[o.GroupVersionKind()]; !served || strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		s.assume(o.GetNamespace())
		if err := s.store(o); err != nil {
			t.Logf("not stored: %v", err) // as some objects in which doctor finds something
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := eventually(func() error { return s.serves(o) }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// order returns when an object is stored: Namespaces come first.
func order(o *unstructured.Unstructured) int {
	if o.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

// manifests returns requests to create what is in files below the folders.
func (s *server) manifests(t *testing.T, folders ...string) (all []drawn) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "cluster" {
				return filepath.SkipDir
			}
			if err != nil || filepath.Ext(file) != ".yaml" {
				return err
			}
			objects, _ := documents(file) // up to one that is no object, as in a policy
			objects = append(objects, inline(file)...)
			for _, o := range objects {
				if _, served := s.kinds[o.GroupVersionKind()]; served {
					s.assume(o.GetNamespace())
					all = append(all, request(o, file))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// inline returns the objects that cases of usherctl test have.
func inline(file string) (all []*unstructured.Unstructured) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var c struct{ Manifest json.RawMessage }
		if err := decoder.Decode(&c); err != nil {
			return all // at the end, or of another form
		}
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(c.Manifest) == nil {
			all = append(all, u)
		}
	}
}

// assume stores a Namespace, if it is missing, with the label for which usher is called.
func (s *server) assume(namespace string) {
	if namespace != "" {
		_ = s.store(made("v1", "Namespace", namespace, "", object{"metadata": object{"labels": object{"admission-webhook": "enabled"}}}))
		_ = s.store(made("v1", "ServiceAccount", "default", namespace, object{}))
	}
}

// sample returns the request that a sample review is about, if it is one to create, or if its old object can be stored.
func (s *server) sample(sample samples.Sample) (drawn, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(sample.Review), &review); err != nil {
		return drawn{}, err
	}
	r, u := review.Request, &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(r.Object.Raw); err != nil {
		return drawn{}, err
	}
	if _, served := s.kinds[u.GroupVersionKind()]; !served || r.SubResource != "" {
		return drawn{}, fmt.Errorf("%s is not served", u.GroupVersionKind())
	}
	s.assume(r.Namespace)
	request := byJane(engine.Request{Object: r.Object.Raw, Operation: r.Operation, Namespace: r.Namespace})
	if r.Operation != admissionv1.Update {
		return drawn{Request: request, what: sample.Name}, nil
	}
	old := &unstructured.Unstructured{}
	if err := old.UnmarshalJSON(r.OldObject.Raw); err != nil {
		return drawn{}, err
	}
	if old.GetNamespace() == "" && s.kinds[u.GroupVersionKind()].Namespaced {
		old.SetNamespace(r.Namespace)
	}
	return drawn{Request: request, what: sample.Name}, s.store(old)
}

// register stores webhook configurations.
func (s *server) register(t *testing.T, configurations ...any) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, c := range configurations {
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := errors.Join(u.UnmarshalJSON(text), s.store(u)); err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	return all
}
