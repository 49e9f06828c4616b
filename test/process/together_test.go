package process

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/seed"
)

// TestEverythingTogether: with every step for pods at work, a pod settles although another webhook that always
// wants the first and the last container runs between usher's calls: the API server would store the same pod however
// often it reinvokes. What usher has changed once, its own checks accept.
func TestEverythingTogether(t *testing.T) {
	suites := routes.Suites()
	policy := harness.Together(t, suites)
	instance := harness.OpenInstance(t, suites, harness.DemoGates(t, suites), policy)
	mux := harness.DefaultServer().Serve(instance.Routes())
	wantAllAwake(t, instance.Routes())
	random := seed.Random(t)
	admitted, checked := 0, 0
	for n := range 400 {
		pod := randomPod(random)
		namespace := []string{"shop", "batch"}[random.IntN(2)]
		first, ok := mutated(t, mux, namespace, asJSON(t, pod))
		if !ok {
			continue // a mutator refuses it
		}
		admitted++
		once, ok := mutated(t, mux, namespace, first)
		if !ok || string(once) != string(first) {
			t.Fatalf("pod %d in %s: the second run changes it\nfirst  %s\nsecond %s", n, namespace, first, once)
		}
		second, ok := mutated(t, mux, namespace, foreign(t, first))
		if !ok {
			t.Fatalf("pod %d in %s: refused after another webhook: %s", n, namespace, first)
		}
		third := foreign(t, second)
		last, ok := mutated(t, mux, namespace, third)
		if !ok || string(last) != string(third) {
			t.Fatalf("pod %d in %s: it does not settle beside another webhook\nbefore %s\nafter  %s", n, namespace, third, last)
		}
		if slices.Contains(refusing(t, mux, namespace, last), "sidecars-present") {
			t.Fatalf("pod %d in %s: a check refuses what usher has done: %s", n, namespace, last)
		}
		checked++
	}
	if admitted < 50 || checked < 50 {
		t.Errorf("of 400 random pods only %d were admitted, and %d checked", admitted, checked)
	}
}

// wantAllAwake checks that no step for pods is idle.
func wantAllAwake(t *testing.T, routes []admit.Route) {
	t.Helper()
	for _, r := range routes {
		for _, s := range r.Chain.Steps() {
			if s.Idle && strings.HasSuffix(r.Path, "-pods") {
				t.Errorf("%s: step %s is idle: neither test/testdata/policies/together.yaml nor samples/policy.yaml puts it to work", r.Path, s.Name)
			}
		}
	}
}

// foreign returns a pod after another mutating webhook, which adds a label, and containers that it wants to be the first
// and the last, and moves if they are not.
func foreign(t *testing.T, raw []byte) []byte {
	t.Helper()
	var pod object
	if err := json.Unmarshal(raw, &pod); err != nil {
		t.Fatal(err)
	}
	meta, spec := member(pod, "metadata"), member(pod, "spec")
	member(meta, "labels")["foreign"] = "yes"
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		var first, last any = object{"name": "first-" + list, "image": "example.com/foreign:1"}, object{"name": "last-" + list, "image": "example.com/foreign:1"}
		var others []any
		for _, c := range containers {
			switch c.(object)["name"] {
			case "first-" + list:
				first = c
			case "last-" + list:
				last = c
			default:
				others = append(others, c)
			}
		}
		spec[list] = append(append([]any{first}, others...), last)
	}
	return asJSON(t, pod)
}

// member returns a member that is an object, made if there is none.
func member(of object, name string) object {
	is, ok := of[name].(object)
	if !ok {
		is = object{}
		of[name] = is
	}
	return is
}

func asJSON(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// reviewed returns the answer of a route about a new pod, or about a new reservation.
func reviewed(t *testing.T, mux http.Handler, path, namespace string, raw []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	kind, resource := `{"group":"","version":"v1","kind":"Pod"}`, `{"group":"","version":"v1","resource":"pods"}`
	if path == "mutate-reservation" {
		kind = `{"group":"scheduling.koordinator.sh","version":"v1alpha1","kind":"Reservation"}`
		resource = `{"group":"scheduling.koordinator.sh","version":"v1alpha1","resource":"reservations"}`
	}
	body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":%s,"resource":%s,`+
		`"operation":"CREATE","name":"p","namespace":%q,"userInfo":{"username":"jane"},"object":%s}}`, kind, resource, namespace, raw)
	w := harness.Post(mux, path+"/p", []byte(body))
	var answer admissionv1.AdmissionReview
	if w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer.Response == nil {
		t.Fatalf("%s: %d %s\n%s", path, w.Code, w.Body, raw)
	}
	return answer.Response
}

// mutated returns a pod after /mutate-pods, with its members in the order of encoding/json, or false if it is refused.
func mutated(t *testing.T, mux http.Handler, namespace string, raw []byte) (after []byte, ok bool) {
	t.Helper()
	answer := reviewed(t, mux, "mutate-pods", namespace, raw)
	if !answer.Allowed {
		return nil, false
	}
	if len(answer.Patch) > 0 {
		raw = harness.ApplyPatch(t, raw, answer.Patch)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return asJSON(t, value), true
}

// refusing returns the steps of /validate-pods that refuse a pod.
func refusing(t *testing.T, mux http.Handler, namespace string, raw []byte) []string {
	t.Helper()
	answer := reviewed(t, mux, "validate-pods", namespace, raw)
	if answer.Allowed {
		return nil
	}
	return []string{answer.AuditAnnotations["denied-by"]}
}
