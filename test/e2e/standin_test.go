package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

// standIn is a webhook server in front of usher, or instead of it. It is registered with the configurations of usher's
// routes: the same failure policy, timeout and rules, but for its own namespace and nodes.
type standIn struct {
	t      *testing.T
	server *httptest.Server
	label  string // of its namespace and nodes, instead of admission-webhook: enabled
	calls  sync.Map
	usher  *http.Client
}

// answer handles a review in a stand-in. pass forwards it to usher.
type answer func(w http.ResponseWriter, r *http.Request, review []byte)

// newStandIn starts a stand-in and waits until the API server calls it; serve is used only after that.
func newStandIn(ctx context.Context, t *testing.T, name string, serve func(s *standIn) answer) *standIn {
	t.Helper()
	s := &standIn{t: t, label: name, usher: usherClient(t)}
	answer, warm := serve(s), atomic.Bool{}
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review, _ := io.ReadAll(r.Body)
		if !warm.Load() { // the harness probes whether calls arrive
			s.pass(w, r, review)
			return
		}
		counter, _ := s.calls.LoadOrStore(r.URL.Path, new(atomic.Int32))
		counter.(*atomic.Int32).Add(1)
		answer(w, r, review)
	}))
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
	})
	t.Cleanup(s.unregister) // runs before the server is closed
	namespace(ctx, t, name, kubetest.Object{"stand-in": name})
	if err := cluster.Apply(ctx, s.configurations(ctx)); err != nil {
		t.Fatal(err)
	}
	s.awaitCalls(ctx)
	warm.Store(true)
	return s
}

// configurations returns usher's configurations with another name, address and selectors.
func (s *standIn) configurations(ctx context.Context) string {
	printed, err := usher.Webhooks(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	selector := map[string]any{"matchLabels": map[string]any{"stand-in": s.label}}
	var documents []string
	for text := range strings.SplitSeq(printed, "\n---\n") {
		var configuration kubetest.Object
		if err := yaml.Unmarshal([]byte(text), &configuration); err != nil {
			s.t.Fatal(err)
		}
		configuration["metadata"] = map[string]any{"name": s.label}
		for _, webhook := range configuration.List("webhooks") {
			client := webhook.At("clientConfig").(map[string]any)
			client["url"] = strings.Replace(client["url"].(string), usher.URL, s.server.URL, 1)
			client["caBundle"] = ca // []byte becomes base64 in JSON
			if webhook.At("namespaceSelector") != nil {
				webhook["namespaceSelector"] = selector
			} else {
				webhook["objectSelector"] = selector
			}
		}
		documents = append(documents, kubetest.Encode(configuration))
	}
	return strings.Join(documents, "\n---\n")
}

// awaitCalls creates pods as a dry run until both pod routes were called: each leaves its audit annotation or its
// refusal.
func (s *standIn) awaitCalls(ctx context.Context) {
	s.t.Helper()
	offensive := pod(s.label, "offensive", "12")
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		seated, err := cluster.Admin().Create(ctx, podPath(s.label, "")+"?dryRun=All", pod(s.label, "probe", "12"))
		if err != nil {
			return err
		}
		if days(seated) == "" {
			return fmt.Errorf("the API server does not call the mutating route yet")
		}
		if _, err := cluster.Admin().Create(ctx, podPath(s.label, "")+"?dryRun=All", offensive); code(err) != 403 {
			return fmt.Errorf("the API server does not call the validating route yet: %w", err)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *standIn) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		_, _ = cluster.Admin().Delete(ctx, "/apis/admissionregistration.k8s.io/v1/"+kind+"/"+s.label)
	}
}

// node creates a node for which the stand-in is called.
func (s *standIn) node(ctx context.Context, name string) {
	s.t.Helper()
	cluster.DeleteAfter(s.t, nodePath(name))
	if _, err := cluster.Admin().Create(ctx, "/api/v1/nodes", fmt.Sprintf(
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q, "labels": {"stand-in": %q}}}`, name, s.label)); err != nil {
		s.t.Fatal(err)
	}
}

// called returns the number of reviews of a route.
func (s *standIn) called(path string) int {
	if counter, ok := s.calls.Load(path); ok {
		return int(counter.(*atomic.Int32).Load())
	}
	return 0
}

// ask forwards a review to usher.
func (s *standIn) ask(r *http.Request, review []byte) (int, []byte) {
	request, err := http.NewRequestWithContext(r.Context(), "POST", usher.URL+r.URL.String(), bytes.NewReader(review))
	if err != nil {
		return http.StatusBadGateway, []byte(err.Error())
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.usher.Do(request)
	if err != nil {
		return http.StatusBadGateway, []byte(err.Error())
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return http.StatusBadGateway, []byte(err.Error())
	}
	return response.StatusCode, body
}

// pass returns usher's own answer.
func (s *standIn) pass(w http.ResponseWriter, r *http.Request, review []byte) {
	status, body := s.ask(r, review)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// usherClient trusts usher's certificate, as the API server does by the caBundle.
func usherClient(t *testing.T) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(usher.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("no certificate in %s", usher.CAFile)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// A server that never answers: the API server waits for the timeout of the route, then the route's failure policy
// decides.
func TestSlowUsherIsWaitedForAsLongAsTheRouteSays(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	var timeouts sync.Map
	s := newStandIn(ctx, t, "slow", func(*standIn) answer {
		return func(_ http.ResponseWriter, r *http.Request, _ []byte) {
			timeouts.Store(r.URL.Path, r.URL.Query().Get("timeout"))
			<-r.Context().Done()
		}
	})
	s.node(ctx, "slow")
	t.Run("both", func(t *testing.T) {
		t.Run("pod", func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			_, err := cluster.Admin().Create(ctx, podPath("slow", ""), pod("slow", "slow", "12"))
			checkSays(t, err, "500 InternalError", `failed calling webhook "mutate-pods.usher.dev"`,
				"?timeout=5s", "context deadline exceeded")
			checkWaited(t, started, 5*time.Second)
			checkNotStored(ctx, t, podPath("slow", "slow"))
		})
		t.Run("heartbeat", func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			if _, err := (&kubelet{name: "slow", cpu: "15900m", cores: "16"}).heartbeat(ctx); err != nil {
				t.Fatalf("a slow usher fails a heartbeat: %v", err)
			}
			checkWaited(t, started, 2*time.Second)
			checkSize(t, stored(ctx, t, nodePath("slow")), size{"15900m", "16", ""})
			checkFailedOpen(t, "patch", "nodes/status", "slow", "mutate-nodes.usher.dev")
		})
	})
	for path, want := range map[string]string{"/mutate-pods": "5s", "/mutate-nodes": "2s"} {
		if got, _ := timeouts.Load(path); got != want {
			t.Errorf("%s was called with timeout %v, want %s", path, got, want)
		}
	}
}

// checkWaited has no upper bound: an answer with the expected text shows that the wait ended.
func checkWaited(t *testing.T, started time.Time, timeout time.Duration) {
	t.Helper()
	if waited := time.Since(started); waited < timeout*9/10 {
		t.Errorf("the API server waited %s only, want %s", waited, timeout)
	}
}

// checkFailedOpen checks that the audit log records a request that proceeded without the webhook.
func checkFailedOpen(t *testing.T, verb, resource, name, webhook string) {
	t.Helper()
	events, err := cluster.Audit(kubetest.Of(verb, resource, name))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 || !strings.Contains(failedOpen(events[len(events)-1]), webhook) {
		t.Errorf("the last of %d audit events does not say that %s failed open: %+v", len(events), webhook, events)
	}
}

// usher is not ready: the API server retries after a 503 with Retry-After within the route's timeout, and the user does
// not notice.
func TestNotReadyUsherIsAskedAgain(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	s := newStandIn(ctx, t, "not-ready", func(s *standIn) answer {
		var seen sync.Map
		return func(w http.ResponseWriter, r *http.Request, review []byte) {
			if _, again := seen.LoadOrStore(r.URL.Path, true); again {
				s.pass(w, r, review)
				return
			}
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	cluster.DeleteAfter(t, podPath("not-ready", "patient"))
	if _, err := cluster.Admin().Create(ctx, podPath("not-ready", ""), pod("not-ready", "patient", "12")); err != nil {
		t.Fatal(err)
	}
	checkSeated(t, stored(ctx, t, podPath("not-ready", "patient")), "14 13 12")
	s.node(ctx, "patient")
	if _, err := (&kubelet{name: "patient", cpu: "15900m", cores: "16"}).heartbeat(ctx); err != nil {
		t.Fatal(err)
	}
	checkSize(t, stored(ctx, t, nodePath("patient")), size{"31800m", "16", "15900m"})
	for _, path := range []string{"/mutate-pods", "/validate-pods", "/mutate-nodes"} {
		if got := s.called(path); got != 2 {
			t.Errorf("%s was called %d times, want a 503 and one more", path, got)
		}
	}
}

// The API server detects answers that violate the contract. usher returns none of them; this test shows that the tests
// of usher's answers would fail if it did.
func TestBrokenAnswersAreFound(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	var breakIt atomic.Pointer[func(w http.ResponseWriter, answer, response kubetest.Object)]
	s := newStandIn(ctx, t, "broken", func(s *standIn) answer {
		return func(w http.ResponseWriter, r *http.Request, review []byte) {
			_, body := s.ask(r, review)
			answer := kubetest.Decode(string(body))
			(*breakIt.Load())(w, answer, answer.At("response").(map[string]any))
			_ = json.NewEncoder(w).Encode(answer)
		}
	})
	s.node(ctx, "broken")
	for _, test := range []struct {
		name, says string
		ignored    bool // a failed call, which a heartbeat ignores
		breakIt    func(w http.ResponseWriter, answer, response kubetest.Object)
	}{
		{"other uid", "response.uid", true, func(_ http.ResponseWriter, _, response kubetest.Object) { response["uid"] = "1" }},
		{"no patch type", "patchType", true, func(_ http.ResponseWriter, _, response kubetest.Object) {
			delete(response, "patchType")
		}},
		{"no patch", "patch", true, func(_ http.ResponseWriter, _, response kubetest.Object) { delete(response, "patch") }},
		{"no response", "response", true, func(_ http.ResponseWriter, answer, _ kubetest.Object) { delete(answer, "response") }},
		{"other version", "v1beta1", true, func(_ http.ResponseWriter, answer, _ kubetest.Object) {
			answer["apiVersion"] = "admission.k8s.io/v1beta1"
		}},
		{"HTTP 403", "failed calling webhook", true, func(w http.ResponseWriter, _, _ kubetest.Object) {
			w.WriteHeader(http.StatusForbidden)
		}},
		{"patch that does not apply", "add operation does not apply", false, func(_ http.ResponseWriter, _, response kubetest.Object) {
			response["patch"] = []byte(`[{"op": "add", "path": "/status/no/such", "value": 1}]`)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			breakIt.Store(&test.breakIt)
			_, err := cluster.Admin().Create(ctx, podPath("broken", ""), pod("broken", "broken", "12"))
			checkSays(t, err, "500 InternalError", test.says)
			checkNotStored(ctx, t, podPath("broken", "broken"))
			_, err = (&kubelet{name: "broken", cpu: "15900m", cores: "16"}).heartbeat(ctx)
			if !test.ignored {
				checkSays(t, err, "500 InternalError", test.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkSize(t, stored(ctx, t, nodePath("broken")), size{"15900m", "16", ""})
			checkFailedOpen(t, "patch", "nodes/status", "broken", "mutate-nodes.usher.dev")
		})
	}
}
