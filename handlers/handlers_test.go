package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

const podReview = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"group":"","version":"v1","kind":"Pod"},
"resource":{"group":"","version":"v1","resource":"pods"},"name":"p","namespace":"n","operation":"CREATE","userInfo":{"username":"me"},
"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"secret":"body"}}}}`

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// route runs one step on pods.
func route(run func(context.Context, *admit.Request, *admit.Pod) error) admit.Route {
	return admit.Route{Path: "/mutate-test", For: admit.Namespaced(podKind, []admissionv1.Operation{admissionv1.Create}, "pods"),
		Chain: admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{{Name: "step", Doc: "does as told", Run: run}})}
}

func succeed(_ context.Context, _ *admit.Request, p *admit.Pod) error {
	p.SetLabel("a", "b")
	return nil
}

func testServer(observe Observe) Server {
	return Server{Observe: observe, Limits: NewLimits(4), Draining: func() bool { return false }}
}

// serveOne serves one request and returns the answer and what was observed.
func serveOne(r admit.Route, req *http.Request) (*httptest.ResponseRecorder, Decision) {
	var seen Decision
	w := httptest.NewRecorder()
	testServer(func(_ admit.Route, d Decision, _ time.Duration) {
		seen = d
		if d.Request != nil { // it is released when this returns
			d.Request.Review = nil
		}
	}).Serve([]admit.Route{r}).ServeHTTP(w, req)
	return w, seen
}

func postTo(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mutate-test?timeout=5s", body)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	return r
}

func answer(t *testing.T, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return review.Response
}

// TestCallersFault: a request that is not a review gets a status and a text.
func TestCallersFault(t *testing.T) {
	change := func(old, new string) string { return strings.Replace(podReview, old, new, 1) }
	cases := []struct {
		name, body string
		code       int
		text       string
	}{
		{"empty", ``, 400, "ends too early"},
		{"an array", `[]`, 400, "is not an AdmissionReview"},
		{"garbage", `hello`, 400, "not JSON"},
		{"two reviews", podReview + podReview, 400, "something follows"},
		{"half a review", podReview[:300], 400, "ends too early"},
		{"another kind", `{"kind":"Pod","apiVersion":"v1"}`, 400, `kind "Pod"`},
		{"another version", change("admission.k8s.io/v1", "admission.k8s.io/v2"), 400, "admission.k8s.io/v2"},
		{"null request", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`, 400, "request.uid is missing"},
		{"no uid", change(`"uid":"u",`, ``), 400, "request.uid is missing"},
		{"no operation", change(`"operation":"CREATE",`, ``), 400, `request.operation is ""`},
		{"another operation", change(`"CREATE"`, `"PATCH"`), 400, `request.operation is "PATCH"`},
		{"a long uid", change(`"uid":"u"`, `"uid":"`+strings.Repeat("u", 257)+`"`), 400, "longer than 256"},
		{"no object", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","object":null}}`, 400, "request.object is missing"},
		{"no old object", change("CREATE", "UPDATE"), 400, "request.oldObject is missing"},
		{"null for the old object", change(`"CREATE"`, `"UPDATE","oldObject":null`), 400, "request.oldObject is missing"},
		{"no old object, of a subresource", change(`"operation":"CREATE"`, `"operation":"UPDATE","subResource":"ephemeralcontainers"`), 400, "request.oldObject is missing"},
		{"no old object, in v1beta1", strings.Replace(change("CREATE", "UPDATE"), "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), 400, "request.oldObject is missing"},
		{"raw object", change(`"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"secret":"body"}}`, `"object":{"raw":"e30="}`), 400, "inline JSON"},
		{"duplicate key", change(`"spec":{`, `"spec":{"secret":1,`), 400, `duplicate key "secret"`},
		{"wrong type", change(`"name":"p","namespace"`, `"name":[],"namespace"`), 400, "request.name"},
		{"wrong kind", strings.ReplaceAll(podReview, `"Pod"`, `"Deployment"`), 400, "is for v1 Pod, not for v1 Deployment"},
		{"kinds disagree", change(`"apiVersion":"v1","kind":"Pod"`, `"apiVersion":"apps/v1","kind":"Deployment"`), 400, "the object is a apps/v1 Deployment"},
		{"object is a string", change(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"secret":"body"}}`, `"x"`), 400, "request.object: "},
		{"deep nesting", `{"kind":` + strings.Repeat(`[`, 100_000), 400, "nested deeper"},
		{"too large", podReview + strings.Repeat(" ", MaxBody), 413, "larger than 7 MiB"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, seen := serveOne(route(succeed), postTo(strings.NewReader(c.body)))
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.text) || seen.Outcome != Invalid {
				t.Errorf("%d %s (%s), want %d %s", w.Code, w.Body, seen.Outcome, c.code, c.text)
			}
			if strings.Contains(w.Body.String(), "goroutine") || w.Body.Len() > 300 {
				t.Errorf("says too much: %s", w.Body)
			}
		})
	}
}

// TestWithoutSubject: a deletion has the stored object, also if there is another one, and a connection has its options.
func TestWithoutSubject(t *testing.T) {
	r := route(succeed)
	r.For[0].Operations = []admissionv1.Operation{admissionv1.Delete, admissionv1.Connect}
	for name, c := range map[string]struct{ operation, object, missing string }{
		"delete":        {`"DELETE"`, `{}`, "oldObject"},
		"delete, null":  {`"DELETE","oldObject":null`, `null`, "oldObject"},
		"connect, null": {`"CONNECT"`, `null`, "object"},
	} {
		body := strings.Replace(podReview, `"CREATE"`, c.operation, 1)
		body = body[:strings.Index(body, `"object"`)] + `"object":` + c.object + `}}`
		w, seen := serveOne(r, postTo(strings.NewReader(body)))
		if w.Code != 400 || !strings.Contains(w.Body.String(), "request."+c.missing+" is missing") || seen.Outcome != Invalid {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestTruncatedReview: no prefix of a review is accepted.
func TestTruncatedReview(t *testing.T) {
	for n := range len(podReview) {
		if w, _ := serveOne(route(succeed), postTo(strings.NewReader(podReview[:n]))); w.Code != 400 {
			t.Fatalf("the first %d bytes were answered %d", n, w.Code)
		}
	}
}

func TestEdgeOfHTTP(t *testing.T) {
	get := httptest.NewRequest(http.MethodGet, "/mutate-test", nil)
	form := postTo(strings.NewReader(podReview))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	none := postTo(strings.NewReader(podReview))
	none.Header.Del("Content-Type")
	zipped := postTo(strings.NewReader(podReview))
	zipped.Header.Set("Content-Encoding", "gzip")
	unknown := httptest.NewRequest(http.MethodPost, "/mutate-nothing", nil)
	for _, c := range []struct {
		r    *http.Request
		code int
		text string
	}{
		{get, 405, "POST"}, {form, 415, "application/json"}, {none, 415, "application/json"}, {zipped, 415, "plain JSON"}, {unknown, 404, "/mutate-test"},
		{postTo(io.MultiReader(strings.NewReader(podReview[:50]), broken{})), 400, "ended early"},
		{httptest.NewRequest(http.MethodGet, "/healthz", nil), 200, "ok"}, {httptest.NewRequest(http.MethodGet, "/health", nil), 200, "ok"},
	} {
		if w, _ := serveOne(route(succeed), c.r); w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s %s: %d %s, want %d %s", c.r.Method, c.r.URL, w.Code, w.Body, c.code, c.text)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestOutcomes(t *testing.T) {
	w, seen := serveOne(route(succeed), postTo(strings.NewReader(podReview)))
	if r := answer(t, w); seen.Outcome != Mutated || !r.Allowed || *r.PatchType != "JSONPatch" || string(r.Patch) != `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]` ||
		r.Result != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("mutated: %+v", r)
	}
	w, seen = serveOne(route(func(context.Context, *admit.Request, *admit.Pod) error { return nil }), postTo(strings.NewReader(podReview)))
	if r := answer(t, w); seen.Outcome != Allowed || !r.Allowed || r.Patch != nil || r.PatchType != nil {
		t.Errorf("allowed: %+v", r)
	}
	w, seen = serveOne(route(func(context.Context, *admit.Request, *admit.Pod) error {
		return field.Invalid(field.NewPath("spec"), "v", "no")
	}), postTo(strings.NewReader(podReview)))
	if r := answer(t, w); seen.Outcome != Denied || seen.Code != 422 || r.Allowed || r.Patch != nil || r.Result.Status != "Failure" {
		t.Errorf("denied: %+v", r)
	}
}

// TestOurFault: the answer never decides the review, and its text does not reveal the cause.
func TestOurFault(t *testing.T) {
	cases := map[string]struct {
		run     func(context.Context, *admit.Request, *admit.Pod) error
		code    int
		outcome Outcome
	}{
		"error": {func(context.Context, *admit.Request, *admit.Pod) error { return errors.New("secret cause") }, 500, Failed},
		"panic": {func(context.Context, *admit.Request, *admit.Pod) error { panic("secret cause") }, 500, Failed},
		"not ready": {func(context.Context, *admit.Request, *admit.Pod) error {
			return fmt.Errorf("secret cause: %w", admit.ErrNotReady)
		}, 503, Failed},
		"gave up": {func(context.Context, *admit.Request, *admit.Pod) error { return context.Canceled }, 500, Failed}, // the caller still waits
	}
	for name, c := range cases {
		w, seen := serveOne(route(c.run), postTo(strings.NewReader(podReview)))
		if w.Code != c.code || seen.Outcome != c.outcome || strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), "allowed") {
			t.Errorf("%s: %d %q, %s", name, w.Code, w.Body, seen.Outcome)
		}
		if (w.Header().Get("Retry-After") == "1") != (name == "not ready") {
			t.Errorf("%s: Retry-After %q", name, w.Header().Get("Retry-After"))
		}
		if (seen.Stack != nil) != (name == "panic") {
			t.Errorf("%s: stack %s", name, seen.Stack)
		}
	}
}

// TestCallerWentAway: there is no answer, and it is not our failure.
func TestCallerWentAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	leave := func(ctx context.Context, _ *admit.Request, _ *admit.Pod) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	w, seen := serveOne(route(leave), postTo(strings.NewReader(podReview)).WithContext(ctx))
	if seen.Outcome != Canceled || w.Code != 499 {
		t.Errorf("%s, %q", seen.Outcome, w.Body)
	}
}

// TestHeartbeatsPass: with the same faults, a heartbeat passes untouched, with a warning.
func TestHeartbeatsPass(t *testing.T) {
	for name, run := range map[string]func(context.Context, *admit.Request, *admit.Pod) error{
		"error": func(context.Context, *admit.Request, *admit.Pod) error { return errors.New("secret cause") },
		"panic": func(context.Context, *admit.Request, *admit.Pod) error { panic("secret cause") },
		"refusal": func(context.Context, *admit.Request, *admit.Pod) error {
			return field.Forbidden(field.NewPath("x"), "no")
		},
	} {
		r := route(run)
		r.For[0].Resources = append(r.For[0].Resources, "nodes/status")
		w, seen := serveOne(r, postTo(strings.NewReader(podReview)))
		if got := answer(t, w); !got.Allowed || got.Patch != nil || len(got.Warnings) != 1 || strings.Contains(w.Body.String(), "secret") || len(seen.Request.ToleratedErrors()) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
		if (seen.Err != nil) != (name != "refusal") {
			t.Errorf("%s: the log is told %v", name, seen.Err)
		}
	}
}

// TestHeartbeatWithoutOldObject: a heartbeat passes although no API server sends it so.
func TestHeartbeatWithoutOldObject(t *testing.T) {
	r := admit.Route{Path: "/mutate-test", For: admit.NodeStatus(), Chain: admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{{Name: "step", Run: succeed}})}
	for _, resource := range []string{`"resource":{"version":"v1","resource":"nodes"},`, ""} {
		w, _ := serveOne(r, postTo(strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"UPDATE",`+
			`"kind":{"version":"v1","kind":"Node"},`+resource+`"subResource":"status","object":{"metadata":{"name":"n"}},"oldObject":null}}`)))
		if w.Code != 200 || answer(t, w).Patch == nil {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

func TestUntouched(t *testing.T) {
	exempt := route(func(context.Context, *admit.Request, *admit.Pod) error { return errors.New("was run") })
	exempt.Exempt = admitNothing
	for name, c := range map[string]struct {
		route admit.Route
		body  string
	}{
		"operation":         {route(fail), strings.Replace(podReview, `"CREATE"`, `"UPDATE","oldObject":{}`, 1)},
		"sub-resource":      {route(fail), strings.Replace(podReview, `"name":"p","namespace"`, `"subResource":"status","name":"p","namespace"`, 1)},
		"another kind":      {route(fail), strings.ReplaceAll(strings.Replace(podReview, `"name":"p","namespace"`, `"subResource":"binding","name":"p","namespace"`, 1), `"Pod"`, `"Binding"`)},
		"exempt":            {exempt, podReview},
		"delete, no object": {route(fail), `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"DELETE","kind":{"version":"v1","kind":"Pod"},"object":null}}`},
	} {
		w, seen := serveOne(c.route, postTo(strings.NewReader(c.body)))
		if w.Code != 200 || !answer(t, w).Allowed || seen.Untouched == "" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func fail(context.Context, *admit.Request, *admit.Pod) error { return errors.New("was run") }

func admitNothing(*admit.Request) string { return "exempt" }

func TestBudget(t *testing.T) {
	for timeout, want := range map[string]time.Duration{
		"10s": 9 * time.Second, "2s": 1800 * time.Millisecond, "500ms": 400 * time.Millisecond, "150ms": 75 * time.Millisecond,
		"": 9 * time.Second, "x": 9 * time.Second, "-1s": 9 * time.Second, "1h": 27 * time.Second,
	} {
		if got := budget(timeout); got != want {
			t.Errorf("budget(%q) = %v, want %v", timeout, got, want)
		}
	}
}

// TestDeadlineReachesTheStep: the deadline ends the step, and that is our failure.
func TestDeadlineReachesTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := postTo(strings.NewReader(podReview))
		req.URL.RawQuery = "timeout=20ms"
		w, _ := serveOne(route(func(ctx context.Context, _ *admit.Request, _ *admit.Pod) error {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 20*time.Millisecond {
				t.Errorf("the deadline is %v", deadline)
			}
			<-ctx.Done()
			return ctx.Err()
		}), req)
		if w.Code != 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestLogAndMetrics: each review is logged in one line and counted once, and the line does not contain the body.
func TestLogAndMetrics(t *testing.T) {
	var lines bytes.Buffer
	log := logrus.New()
	log.SetOutput(&lines)
	log.SetFormatter(&logrus.JSONFormatter{})
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry, NewLimits(1))
	observe := func(r admit.Route, d Decision, took time.Duration) {
		Log(log)(r, d, took)
		metrics.Observe(r, d, took)
	}
	panics := route(func(context.Context, *admit.Request, *admit.Pod) error { panic("at the disco") })
	for _, r := range []admit.Route{route(succeed), panics} {
		testServer(observe).Serve([]admit.Route{r}).ServeHTTP(httptest.NewRecorder(), postTo(strings.NewReader(podReview)))
	}
	testServer(observe).Serve([]admit.Route{panics}).ServeHTTP(httptest.NewRecorder(), postTo(strings.NewReader("nonsense")))
	text := lines.String()
	for _, want := range []string{`"uid":"u"`, `"route":"/mutate-test"`, `"operation":"CREATE"`, `"kind":"Pod"`, `"namespace":"n"`, `"name":"p"`, `"user":"me"`,
		`"verdict":"mutated"`, `"code":200`, `"changed":"step"`, `"duration":`, `"dryRun":false`, `"stack":`, `"verdict":"invalid"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	if strings.Count(text, "\n") != 3 || strings.Contains(text, "secret") {
		t.Errorf("not one line for each review, or a body in it:\n%s", text)
	}
	want := `
		# HELP usher_panics_total Panics in steps.
		# TYPE usher_panics_total counter
		usher_panics_total{route="/mutate-test"} 1
		# HELP usher_reviews_total Reviews by route, operation and outcome (allowed, mutated, denied, invalid, error, shed, limited, unauthenticated, canceled).
		# TYPE usher_reviews_total counter
		usher_reviews_total{operation="CREATE",outcome="error",route="/mutate-test"} 1
		usher_reviews_total{operation="CREATE",outcome="mutated",route="/mutate-test"} 1
		usher_reviews_total{operation="unknown",outcome="invalid",route="/mutate-test"} 1
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "usher_reviews_total", "usher_panics_total"); err != nil {
		t.Error(err)
	}
}

// FuzzDecide: for any input, the answer is a valid one.
func FuzzDecide(f *testing.F) {
	f.Add([]byte(podReview))
	f.Add([]byte(strings.ReplaceAll(podReview, "CREATE", "DELETE")))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","object":{"metadata":5}}}`))
	r := route(succeed)
	f.Fuzz(func(t *testing.T, body []byte) {
		d := Decide(t.Context(), r, body, nil)
		switch d.Outcome {
		case Allowed, Mutated, Denied:
			if d.Response == nil || d.Response.UID == "" || (d.Response.Patch == nil) != (d.Response.PatchType == nil) {
				t.Fatalf("%q: %+v", body, d)
			}
		case Invalid:
		default:
			t.Fatalf("%q: %s %v\n%s", body, d.Outcome, d.Err, d.Stack)
		}
	})
}

// TestHeadIsBounded: a list or object of the user with more than 10,000 parts is refused, as everywhere in a document.
func TestHeadIsBounded(t *testing.T) {
	for _, part := range []string{`"groups":["g"` + strings.Repeat(`,"g"`, 10_000) + `]`, `"extra":{"k":["v"` + strings.Repeat(`,"v"`, 10_000) + `]}`} {
		body := strings.Replace(podReview, `"userInfo":{`, `"userInfo":{`+part+`,`, 1)
		if !strings.Contains(body, part) {
			t.Fatal("the review has no request to put it into")
		}
		if _, _, err := ReadReview([]byte(body)); err == nil || !strings.Contains(err.Error(), "more than 10000 parts") {
			t.Errorf("%.20s…: %v", part, err)
		}
	}
}
