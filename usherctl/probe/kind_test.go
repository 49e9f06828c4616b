package probe

import (
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// failing returns what some tests of a webhook find.
func failing(t *testing.T, h *registered, tests string) map[string]Result {
	t.Helper()
	failed, chosen := map[string]Result{}, regexp.MustCompile("^("+tests+")$")
	Run(t.Context(), &h.Hook, slices.DeleteFunc(Tests(), func(t Test) bool { return !chosen.MatchString(t.Name) }),
		Bound{400, 2 * time.Minute, 6 * time.Second}, func(res Result) {
			if len(res.Failures) > 0 || res.NotJudged != "" {
				failed[res.Test.Name] = res
			}
		})
	return failed
}

// TestGetIsNotImplemented: HTTP 501, by which Python's server refuses GET, is no failure.
func TestGetIsNotImplemented(t *testing.T) {
	h := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		shape{decide: allow}.ServeHTTP(w, r)
	}))
	if failed := failing(t, h, "get"); len(failed) > 0 {
		t.Error(failed)
	}
}

// TestLargeIsRefused: a body that is too large may be refused by an answer.
func TestLargeIsRefused(t *testing.T) {
	for size, want := range map[int64]int{1 << 20: 0, 1 << 30: 1} {
		h := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			allowed := int64(len(body)) <= size
			_, _ = fmt.Fprintf(w, `{"response": {"allowed": %t, "status": {"message": "it is too large"}}}`, allowed)
		}))
		if failed := failing(t, h, "endless"); len(failed) != want {
			t.Errorf("%d: %v", size, failed)
		}
	}
}

// TestRandomPatch: a patch that is another one each time is named by the test of it alone.
func TestRandomPatch(t *testing.T) {
	var n atomic.Int64
	h := serving(t, shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return patching(q, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{"example.com/note": "kept", "n": n.Add(1)}})
	}})
	failed := failing(t, h, "dry-run|repeated|side-by-side|slow-clients|alive")
	if _, is := failed["repeated"]; !is || len(failed) > 1 {
		t.Errorf("%v", failed)
	}
}

// TestMixedRequests: what handlers share, and what they keep by the name of an object, is found, and nothing of those that decide by the name.
func TestMixedRequests(t *testing.T) {
	type decider = func(q, seen *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
	var decide decider
	h := serving(t, shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return decide(q, q) }})
	shipped, refused := h.Samples, requests.Read("", strings.NewReader(`{apiVersion: v1, kind: Pod, metadata: {name: moving},
		spec: {containers: [{name: app, image: "registry.example.com/web:latest"}]}}`))
	if err := h.addSamples(t.Context(), refused, false); err != nil {
		t.Fatal(err)
	}
	both := h.Samples
	unless := func(refused bool, q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if refused {
			return refusing(q, 403, "no")
		}
		return allow(q)
	}
	validate := func(q, seen *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return unless(strings.Contains(string(seen.Object.Raw), ":latest"), q)
	}
	mutate := func(q, seen *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		pod := podOf(seen)
		if pod == nil || pod.Annotations["seen"] != "" {
			return allow(q)
		}
		return patching(q, map[string]any{"op": "add", "path": "/metadata/annotations", "value": labels.Merge(pod.Annotations, labels.Set{"seen": "yes"})})
	}
	shared := func(of decider) decider {
		var last atomic.Pointer[admissionv1.AdmissionRequest]
		return func(q, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			last.Store(q)
			time.Sleep(3 * time.Millisecond)
			return of(q, last.Load())
		}
	}
	kept := func(of decider) decider {
		var byName sync.Map
		return func(q, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			first, _ := byName.LoadOrStore(q.Namespace+"/"+q.Name, of(q, q))
			answer := *first.(*admissionv1.AdmissionResponse)
			answer.UID = q.UID
			return &answer
		}
	}
	for name, test := range map[string]struct {
		samples []Sample
		decide  decider
		want    string // empty: nothing is found
	}{
		"a shared object, of which one is refused": {both, shared(validate), "had another answer"},
		"a shared object, of one sample":           {shipped, shared(mutate), "had another answer"},
		"a shared uid": {shipped, shared(func(_, seen *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return allow(seen) }),
			"had another answer"},
		"a verdict kept by name": {both, kept(validate), "as another one of its name was"},
		"a patch kept by name":   {shipped, kept(mutate), "as another one of its name was"},
		"honest":                 {both, validate, ""},
		"a name that is refused": {both, func(q, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return unless(q.Name == "moving", q)
		}, ""},
		"half of all names": {both, func(q, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return unless(crc32.ChecksumIEEE([]byte(q.Name))%2 == 0, q)
		}, ""},
		"nothing but yes": {both, func(q, _ *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return allow(q) }, "the same answer"},
	} {
		h.Samples, decide = test.samples, test.decide
		res := failing(t, h, "side-by-side")["side-by-side"]
		if said := fmt.Sprint(res.NotJudged, res.Failures); test.want == "" && len(res.Failures) > 0 || !strings.Contains(said, test.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestOneConnection: that a server serves one connection at a time is a failure of slow-clients, and not unknown.
func TestOneConnection(t *testing.T) {
	h := serving(t, shape{decide: allow})
	c := newClient(&h.Hook, Bound{Requests: 100})
	r := &run{Context: t.Context(), hook: &h.Hook, client: c, was: &Answer{}}
	h.URL = "https://127.0.0.1:1/mutate" // nothing is there any more
	startSlow(t.Context(), c, time.Second)(r)
	if len(r.result.Failures) == 0 || r.result.NotJudged != "" {
		t.Errorf("%+v", r.result)
	}
}

// TestSlowestAnswer: one ordinary answer that comes after the registered time is a failure, however fast the others are.
func TestSlowestAnswer(t *testing.T) {
	for late, want := range map[time.Duration]int{0: 0, 2 * time.Second: 1} {
		var n atomic.Int64
		h := serving(t, shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if n.Add(1) == 1 {
				time.Sleep(late)
			}
			return allow(q)
		}})
		h.unregistered, h.Timeout = false, time.Second
		if failed := failing(t, h, "in-time"); len(failed) != want {
			t.Errorf("%s: %v", late, failed)
		}
	}
}

// TestForeignContainers: a patch that does not apply once others have added containers is a failure.
func TestForeignContainers(t *testing.T) {
	h := serving(t, shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return patching(q, map[string]any{"op": "test", "path": "/spec/containers/0/name", "value": "app"},
			map[string]any{"op": "add", "path": "/spec/containers/0/stdin", "value": true})
	}})
	res := failing(t, h, "other-containers")["other-containers"]
	if len(res.Failures) != 1 || !strings.Contains(res.Failures[0].Text, "does not apply") {
		t.Errorf("%+v", res)
	}
}

// TestLook: a command that is too long for a terminal is printed only with the body in a file, and the failure policy only where a call fails.
func TestLook(t *testing.T) {
	res := Result{Test: Test{Name: "delete", From: []string{""}}, Hook: &Hook{Name: "pods.example.com", URL: "https://127.0.0.1:1/a", FailurePolicy: "Fail"}}
	x := &Exchange{Method: "POST"}
	res.Failures = []Failure{{"no", x}}
	for body, want := range map[string]bool{"null": false, `{"request": {}}`: true} {
		var out strings.Builder
		x.Body = []byte(body)
		if res.print(&out, report.Style{}, ""); strings.Contains(out.String(), "while a call fails") != want {
			t.Errorf("%s: %s", body, out.String())
		}
	}
	x.Body = []byte(strings.Repeat(" ", 3000) + "{}")
	dir := t.TempDir()
	for save, want := range map[string]string{"": "--save DIR", dir: "--data-binary @" + filepath.Join(dir, "delete-pods.example.com.json") + " https"} {
		var out strings.Builder
		if res.print(&out, report.Style{}, save); !strings.Contains(out.String(), want) || out.Len() > 600 {
			t.Errorf("%q: %s", save, out.String())
		}
	}
	if body, err := os.ReadFile(filepath.Join(dir, "delete-pods.example.com.json")); err != nil || len(body) != 3002 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// TestNamedConfigurations: of the two kinds of configurations that a name may have, one is enough, and without any both are named.
func TestNamedConfigurations(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/guard" {
			_, _ = w.Write([]byte(`{"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "guard"}}`))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`))
	}))
	defer server.Close()
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("{clusters: [{name: a, cluster: {server: \""+server.URL+"\"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := flags.Cluster{Source: "api", Kubeconfig: config}
	if all, err := readConfigurations(t.Context(), from, "guard"); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := readConfigurations(t.Context(), from, "nosuch"); err == nil || !strings.Contains(err.Error(), "no webhook configuration nosuch") {
		t.Error(err)
	}
}

// TestPanics: a handler that panics is recognized by HTTP/1.1 and HTTP/2.
func TestPanics(t *testing.T) {
	for _, second := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		server.EnableHTTP2 = second
		server.StartTLS()
		defer server.Close()
		if said := (&Hook{URL: server.URL}).Ask(t.Context(), nil).Outcome(); !strings.Contains(said, "a handler that panics") {
			t.Errorf("HTTP/2 %t: %s", second, said)
		}
	}
}
