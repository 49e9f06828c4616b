package probe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// refusing returns a refusal.
func refusing(q *admissionv1.AdmissionRequest, code int32, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{UID: q.UID, Result: &metav1.Status{Code: code, Message: message}}
}

const recovered = "panic: runtime error: invalid memory address or nil pointer dereference [recovered]"

// configured returns the webhooks of configurations in YAML, without samples.
func configured(t *testing.T, handler http.Handler, configurations string) []*registered {
	t.Helper()
	to := place{address: strings.TrimSuffix(serving(t, handler).URL, "/mutate")}
	hooks, err := hooksOf(requests.Read("", strings.NewReader(configurations)), to)
	if err != nil {
		t.Fatal(err)
	}
	return hooks
}

// configuration is one that has a webhook for pods.
func configuration(kind, path, operations, versions string) string {
	return fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %sWebhookConfiguration, metadata: {name: guard}, webhooks: [
		{name: %s.example.com, sideEffects: None, %s clientConfig: {url: "https://guard.example.com/%s"},
		rules: [{apiGroups: [""], apiVersions: [v1], operations: [%s], resources: [pods, pods/status]}]}]}`, kind, path, versions, path, operations)
}

const v1 = "admissionReviewVersions: [v1],"

// TestRecoveredPanics: a refusal that says that the handler has failed is a failure of the test that sent the request.
func TestRecoveredPanics(t *testing.T) {
	for want, decide := range map[string]func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse{
		"answer": func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return refusing(q, 503, "later") },
		"nulls": func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if pod := podOf(q); pod != nil && pod.Labels == nil {
				return refusing(q, 0, recovered)
			}
			return allow(q)
		},
	} {
		failed := failing(t, serving(t, shape{decide: decide}), "answer|nulls|deep|sparse|refusal")
		for test, res := range failed {
			if (test == want) != (len(res.Failures) > 0) {
				t.Errorf("%s: %s: %+v", want, test, res)
			}
		}
		if len(failed[want].Failures) == 0 {
			t.Errorf("%s: it is not found", want)
		}
	}
}

// TestNothingButNulls: what the API server stores without it is no change, neither the first time nor again.
func TestNothingButNulls(t *testing.T) {
	null := map[string]any{"op": "add", "path": "/metadata/creationTimestamp", "value": nil}
	h := serving(t, shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return patching(q, null) }})
	if res := failing(t, h, "idempotent|rounds|valid"); len(res) != 3 || res["rounds"].NotJudged == "" {
		t.Errorf("%v", res)
	}
	h = serving(t, shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		pod := podOf(q)
		if pod == nil {
			return allow(q)
		}
		return patching(q, null, map[string]any{"op": "add", "path": "/metadata/labels", "value": map[string]string{"queue": "a"}},
			map[string]any{"op": "add", "path": "/status", "value": map[string]any{"startTime": nil}})
	}})
	if res := failing(t, h, "idempotent|rounds|valid"); len(res) != 0 {
		t.Errorf("%v", res)
	}
}

// TestOnlyV1beta1: what the API server does not verify in v1beta1 is no failure of a webhook that is registered for nothing else.
func TestOnlyV1beta1(t *testing.T) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"response": {"allowed": true, "patch": "W10="}}`)
	})
	h := configured(t, bare, configuration("Mutating", "mutate", "CREATE", "admissionReviewVersions: [v1beta1],"))[0]
	if err := h.addSamples(t.Context(), nil, false); err != nil {
		t.Fatal(err)
	}
	if failed := failing(t, h, "answer|uid|version|v1beta1|patch-type|no-patch"); len(failed) > 0 {
		t.Errorf("%v", failed)
	}
}

// TestLostFields: fields of the sample that are lost are named before the ones that the test adds, each time the same.
func TestLostFields(t *testing.T) {
	h := serving(t, shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if podOf(q) == nil {
			return allow(q)
		}
		return patching(q, map[string]any{"op": "replace", "path": "/spec/containers/0", "value": map[string]any{"name": "app", "image": "a"}},
			map[string]any{"op": "remove", "path": "/spec/tolerations"}, map[string]any{"op": "remove", "path": "/spec/probeField"})
	}})
	for range 5 {
		res := failing(t, h, "unknown-fields")["unknown-fields"]
		if len(res.Failures) != 1 || !strings.Contains(res.Failures[0].Text, "/spec/containers/0/env, /spec/containers/0/imagePullPolicy, ") ||
			!strings.Contains(res.Failures[0].Text, "/spec/containers/0/probeField") {
			t.Fatalf("%+v", res)
		}
	}
}

// TestNothingListens: a server that is not there is no fault of the webhook.
func TestNothingListens(t *testing.T) {
	h := serving(t, shape{decide: allow})
	h.URL = "https://127.0.0.1:1/mutate"
	for test, res := range failing(t, h, ".*") {
		if len(res.Failures) > 0 || !strings.Contains(res.NotJudged, "127.0.0.1:1") {
			t.Errorf("%s: %+v", test, res)
		}
	}
}

// TestNoReviewVersions: a configuration without the versions that v1 requires is called for nothing, and that is said.
func TestNoReviewVersions(t *testing.T) {
	h := configured(t, shape{decide: allow}, configuration("Validating", "validate", "CREATE", ""))[0]
	if err := h.addSamples(t.Context(), nil, false); err != nil {
		t.Fatal(err)
	}
	if res := failing(t, h, "answer")["answer"]; !strings.Contains(res.NotJudged, "admissionReviewVersions") {
		t.Errorf("%+v", res)
	}
}

// TestSlowKinds: the failure names the kinds of connections that stay open, but not silent ones, and has a command.
func TestSlowKinds(t *testing.T) {
	h := serving(t, shape{decide: allow})
	for limit, want := range map[time.Duration]string{0: "after half a body, or half a header came", time.Second: "after half a body came"} {
		server := httptest.NewUnstartedServer(shape{decide: allow})
		server.Config.ReadHeaderTimeout = limit
		server.StartTLS()
		defer server.Close()
		h.URL = server.URL + "/mutate"
		res := failing(t, h, "slow-clients")["slow-clients"]
		if len(res.Failures) != 1 || !strings.Contains(res.Failures[0].Text, want) || !strings.Contains(res.Failures[0].Exchange.Curl(h.URL, ""), "openssl s_client") {
			t.Errorf("%s: %+v", limit, res)
		}
	}
}

// TestEndlessCommand: the command is the request that was sent: blanks, and then a review.
func TestEndlessCommand(t *testing.T) {
	h := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if json.NewDecoder(r.Body).Decode(&review) == nil && review.Request != nil {
			review.Response, review.Request = allow(review.Request), nil
			_ = json.NewEncoder(w).Encode(review)
		}
	}))
	res := failing(t, h, "endless")["endless"]
	if len(res.Failures) != 1 {
		t.Fatalf("%+v", res)
	}
	if command := res.Failures[0].Exchange.Curl(h.URL, "review.json"); !strings.Contains(command, "/dev/zero") || !strings.Contains(command, "cat review.json") {
		t.Error(command)
	}
}

// TestUpdates: where the rules name updates, samples are sent as updates, and of their status, and their panics are found.
func TestUpdates(t *testing.T) {
	guard := shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		switch {
		case q.Operation == "UPDATE" && strings.Contains(string(q.Object.Raw), "Quota") && (q.SubResource == "status") == strings.HasPrefix(q.Name, "s"):
			return refusing(q, 500, recovered)
		case q.Operation == "UPDATE" && (strings.Contains(string(q.Object.Raw), "deletionTimestamp") && q.Name == "deleted" ||
			!strings.Contains(string(q.Object.Raw), `"image":"a"`) && q.Name == "changed"):
			return refusing(q, 500, recovered)
		}
		return allow(q)
	}}
	for name, want := range map[string]string{"web": "an update of spec.containers[0].image", "changed": "an update of spec.containers[0].image", "s": "an update of the status of a Pod s",
		"deleted": "while it is deleted"} {
		status := "{conditions: [{type: Quota, status: 'True'}]}"
		if len(name) > 3 {
			status = "{}"
		}
		given := requests.Read("", strings.NewReader(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s},
			spec: {containers: [{name: app, image: a}]}, status: %s}`, name, status)))
		for operations, found := range map[string]bool{"CREATE, UPDATE": true, "CREATE": false} {
			h := configured(t, guard, configuration("Validating", "validate", operations, v1))[0]
			if err := h.addSamples(t.Context(), given, false); err != nil {
				t.Fatal(err)
			}
			if res := failing(t, h, "update")["update"]; (len(res.Failures) > 0) != found || found && !strings.Contains(res.Failures[0].Text, want) {
				t.Errorf("%s, %s: %+v", name, operations, res)
			}
			if said := strings.Contains(strings.Join(h.notes, ""), "the status of a Pod"); said != (!found && len(name) <= 3) {
				t.Errorf("%s, %s: %v", name, operations, h.notes)
			}
		}
	}
}

// TestMutatedFirst: a validating webhook gets what the mutating ones of its file have changed, as it would of the API server.
func TestMutatedFirst(t *testing.T) {
	for _, fails := range []bool{false, true} {
		handler := shape{decide: func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if fails {
				return refusing(q, 403, "never")
			}
			return patching(q, map[string]any{"op": "add", "path": "/metadata/annotations/defaulted", "value": "yes"})
		}}
		hooks := configured(t, handler, configuration("Validating", "validate", "CREATE", v1)+"\n---\n"+configuration("Mutating", "mutate", "CREATE", v1))
		if err := hooks[0].addSamples(t.Context(), nil, false, hooks...); err != nil {
			t.Fatal(err)
		}
		first := string(hooks[0].Samples[0].Review.JSON())
		if strings.Contains(first, `"defaulted":"yes"`) == fails || (len(hooks[0].notes) > 0) != fails {
			t.Errorf("%t: %v\n%s", fails, hooks[0].notes, first)
		}
	}
}

// TestChosen: --webhook and --skip choose, samples for other webhooks are not mentioned, and slow-clients comes once for each address.
func TestChosen(t *testing.T) {
	h := serving(t, shape{decide: allow})
	file := filepath.Join(t.TempDir(), "webhooks.yaml")
	all := strings.ReplaceAll(configuration("Validating", "a", "CREATE", v1)+"\n---\n"+strings.Replace(configuration("Validating", "b", "CREATE", v1), "pods, pods/status", "configmaps", 1),
		"https://guard.example.com", h.URL)
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	const ofPods = "--sample=testdata/samples.yaml"
	for flags, want := range map[string]string{"": "it was tested with another webhook", ofPods: "a Pod too-long", "--webhook=b.example.com " + ofPods: "not called", "--webhook=b.example.com": "webhook b.example.com",
		"--webhook=a.example.com --skip=slow": "", "--webhook=nosuch": "a.example.com and b.example.com"} {
		var out, errs strings.Builder
		c := Command(tool.Env{Streams: cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}})
		c.SetArgs(append([]string{"-f", file, "--run=^(answer|slow-clients|registration)$", "--patience=3s", "-y"}, strings.Fields(flags)...))
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); err != nil {
			out.WriteString(err.Error())
		}
		if said := out.String(); !strings.Contains(said, want) || strings.Contains(flags, "skip") && strings.Contains(said, "slow-clients") ||
			strings.Contains(flags, "b.example.com") && strings.Contains(said, "webhook a.example.com") || flags == ofPods && strings.Contains(said, "not called") {
			t.Errorf("%s: %s", flags, said)
		}
	}
}
