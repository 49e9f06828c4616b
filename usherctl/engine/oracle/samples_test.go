package oracle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/routes"
	"usher.dev/usher/samples"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/engine"
)

// TestSamples: samples, manifests, lessons and cases of the tree end as in an API server in which usher is registered.
func TestSamples(t *testing.T) {
	s := theServer(t)
	t.Chdir("../../..")
	usher := &served{}
	usher.url, usher.ca = endpoint(t, usher.answer)
	usher.storeAll(t, s, glob(t, "deploy/crds/*.yaml", "samples/cluster/*.yaml")...)
	all := s.scenes(t)
	s.sendable(t, all)
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	byText := func(a, b scene) int { return cmp.Compare(a.policy+a.files, b.policy+b.files) }
	for i, in := range slices.SortedFunc(maps.Keys(all), byText) {
		if i > 0 && newDrawer(seed, 5_000_000+uint64(i)).IntN(400) > int(draws) {
			continue // a short run has a few of them
		}
		slices.SortStableFunc(all[in], func(a, b drawn) int { return cmp.Compare(len(a.over()), len(b.over())) }) // these store objects
		usher.compare(t, s, in, all[in])
	}
}

// unsendable are the reviews of the shelf that an API server without webhooks refuses, with what it says. It may still send them to webhooks:
// to mutating ones before it validates an object, to validating ones after.
var unsendable = map[string]string{
	"mutate-pods/unknown-fields":                             "name part must consist of",             // labels to escape: validation comes later
	"mutate-pods/production-pod":                             `serviceaccount "storefront" not found`, // of the cluster that it is from
	"validate-pods/wrong-kind":                               "spec.selector: Required value",         // no API server calls the path with it
	"mutate-nodes/malformed-heartbeat":                       "cannot be handled as a Node",           // usher must not refuse it either
	"mutate-pod/colocation-profile":                          "Pod Overhead set without",              // a step leaves the field to its plug-in
	"validate-pod/qos-priority-be-with-prod-priority":        "the integer value of priority (9999)",  // Priority has written it, of a class of its own
	"validate-clustercolocationprofile/profile-bad-selector": "spec.selector.matchExpressions[0]",     // a definition without the enum lets it through
}

// sendable checks that an API server accepts the reviews of the shelf itself, but for those that are declared.
func (s *server) sendable(t *testing.T, all map[scene][]drawn) {
	t.Helper()
	cluster, err := s.list()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(t.Context(), engine.Cluster{Objects: cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, sample := range samples.Shelf() {
		for _, r := range slices.Concat(slices.Collect(maps.Values(all))...) {
			if r.what != sample.Name {
				continue
			}
			r.Old = r.over()
			refusal := ""
			if v := e.Judge(t.Context(), r.Request); v.Refusal != nil && v.Code != http.StatusConflict {
				refusal = v.Refusal.Message
			}
			if want := unsendable[sample.Name]; (want == "") != (refusal == "") || !strings.Contains(refusal, want) {
				t.Errorf("%s: refused: %q; want %q", sample.Name, refusal, want)
			}
		}
	}
}

// scene is usher under a policy, in a cluster that has, beside that of the samples, the objects of files.
type scene struct{ policy, files string }

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
	if bytes.Contains(review, []byte(`"username":"`+storekeeper+`"`)) {
		return answered("allow", review)
	}
	recorder, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, bytes.NewReader(review))
	r.Header.Set("Content-Type", "application/json")
	u.ServeHTTP(recorder, r)
	return recorder.Code, recorder.Body.Bytes()
}

// compare judges the requests while usher with a policy is registered.
func (u *served) compare(t *testing.T, s *server, at scene, requests []drawn) {
	t.Helper()
	for _, o := range u.storeAll(t, s, strings.Fields(at.files)...) {
		defer s.remove(t, o)
	}
	in := usherOf(t, at.policy)
	u.Handler = harness.DefaultServer().Serve(in.Routes())
	called, address := webhooks.OneAmplifier(in.Routes()), webhooks.Address{Namespace: "usher", Service: "usher", URL: u.url, CABundle: u.ca}
	for _, configuration := range s.register(t, webhooks.Mutating(called, address), webhooks.Validating(called, address)) {
		defer s.remove(t, configuration)
	}
	if err := s.called(t, u.url, u.ca, fmt.Sprintf("last-%x", sha256.Sum224([]byte(at.policy+at.files)))); err != nil {
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

func glob(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, files...)
	}
	return all
}

// storeAll stores the objects of files whose kinds are served, and returns those that can go again.
func (u *served) storeAll(t *testing.T, s *server, files ...string) (stored []*unstructured.Unstructured) {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, file := range files {
		objects, err := documents(file)
		if err != nil && !strings.Contains(err.Error(), "Object 'Kind' is missing") {
			t.Fatal(file, err)
		}
		all = append(all, objects...)
	}
	all = s.served(all)
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return cmp.Compare(order(a), order(b)) })
	for _, o := range all {
		u.here(o)
		s.assume(o.GetNamespace())
		if err := s.store(o); err != nil {
			t.Logf("not stored: %v", err) // as some objects in which doctor finds something
		} else if o.GetKind() != "Namespace" {
			stored = append(stored, o)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := eventually(func() error { return s.serves(o) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	return stored
}

// here lets the webhooks of a configuration be called at the endpoint of the test, where those that are not usher's allow everything.
func (u *served) here(o *unstructured.Unstructured) {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, hook := range hooks {
		path, _, _ := unstructured.NestedString(hook.(object), "clientConfig", "service", "path")
		if !strings.HasSuffix(fmt.Sprint(hook.(object)["name"]), ".usher.dev") {
			path = "/last/allow"
		}
		hook.(object)["clientConfig"] = object{"url": u.url + path, "caBundle": base64.StdEncoding.EncodeToString(u.ca)}
	}
	if len(hooks) > 0 {
		o.Object["webhooks"] = hooks
	}
}

// order returns when an object is stored: Namespaces come first.
func order(o *unstructured.Unstructured) int {
	if o.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

// assume stores a Namespace, if it is missing, with the label for which usher is called.
func (s *server) assume(namespace string) {
	if namespace != "" {
		_ = s.create(made("v1", "Namespace", namespace, "", object{"metadata": object{"labels": object{"admission-webhook": "enabled"}}}))
		_ = s.create(made("v1", "ServiceAccount", "default", namespace, object{}))
	}
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
