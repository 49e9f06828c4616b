package doctor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/handlers"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// ushers returns a webhook of usher for new pods.
func ushers(name, more string) string {
	return fmt.Sprintf(`{"name": "%s.usher.dev", "clientConfig": {"service": {"namespace": "usher", "name": "usher", "path": "/%[1]s"}},
"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}], "sideEffects": "None"%s}`, name, more)
}

// TestCanary: called is said only of what has answered, and not called only of what cannot have been called.
func TestCanary(t *testing.T) {
	const (
		elsewhere = `, "namespaceSelector": {"matchLabels": {"team": "bank"}}`
		labelled  = `, "objectSelector": {"matchLabels": {"a": "b"}}`
		lenient   = `, "failurePolicy": "Ignore"`
		old       = `, "clientConfig": {"service": {"namespace": "usher", "name": "old", "path": "/validate-pods"}}`
	)
	mutate, validate := ushers("mutate-pods", ""), ushers("validate-pods", "")
	for _, c := range []struct {
		name, mutating, validating string
		answers                    string // the paths that answer
		refused                    bool
		needed                     string
		want                       string // for each webhook: called, a filter
		exit                       report.Exit
	}{
		{"both", mutate, validate, "/mutate-pods /validate-pods", false, "", "called called", report.Fine},
		{"another namespace", mutate, ushers("validate-pods", elsewhere), "/mutate-pods", false, "", "called namespaceSelector", report.Refused},
		{"for other objects", mutate, strings.Replace(validate, `["pods"]`, `["secrets"]`, 1), "/mutate-pods", false, "", "called rules", report.Fine},
		{"for other objects, though needed", mutate, strings.Replace(validate, `["v1"]`, `["v1beta1"]`, 1), "/mutate-pods", false, "validate-pods", "called rules", report.Refused},
		{"for cluster-scoped ones, though needed", mutate, strings.Replace(validate, `["pods"]`, `["pods"], "scope": "Cluster"`, 1), "/mutate-pods", false, "validate-pods", "called scope", report.Refused},
		{"a slash at the end", mutate, strings.Replace(validate, `/validate-pods"`, `/validate-pods/"`, 1), "/mutate-pods /validate-pods", false, "", "called called", report.Fine},
		{"for other objects alone", strings.Replace(mutate, `["pods"]`, `["secrets"]`, 1), "", "", false, "", "rules", report.Refused},
		{"switched off", mutate, validate, "/mutate-pods", false, "", "called unanswered", report.Refused},
		{"it may have failed", mutate, ushers("validate-pods", lenient), "/mutate-pods", false, "", "called unknown", report.Unjudged},
		{"nothing answers", mutate, validate, "", false, "", "unknown unknown", report.Unjudged},
		{"another server", mutate, ushers("validate-pods", old), "/mutate-pods", false, "", "called unknown", report.Unjudged},
		{"refused before", mutate, validate, "/mutate-pods", true, "", "called unknown", report.Unjudged},
		{"refused by usher, or by another webhook", mutate, validate, "/mutate-pods /validate-pods", true, "", "called called", report.Refused},
		{"refused, and in no way for it", mutate, ushers("validate-pods", elsewhere), "", true, "", "unknown namespaceSelector", report.Unjudged},
		{"refused, and perhaps changed before", mutate, ushers("validate-pods", labelled), "/mutate-pods", true, "", "called unknown", report.Unjudged},
		{"changed before", mutate, ushers("validate-pods", labelled), "/mutate-pods /validate-pods", false, "", "called called", report.Fine},
		{"two for one answer", mutate, validate + "," + strings.Replace(validate, "validate-pods", "second", 1), "/mutate-pods /validate-pods", false, "", "called unknown unknown", report.Unjudged},
		{"no dry runs", mutate, ushers("validate-pods", `, "sideEffects": "Some"`), "/mutate-pods", false, "", "called unknown", report.Unjudged},
		{"not registered", mutate, "", "/mutate-pods", false, "validate-pods", "called registration", report.Refused},
		{"in a file", mutate, "", "/mutate-pods /validate-pods", false, "validate-pods", "called called", report.Fine},
		{"in a file, and not needed", mutate, "", "/mutate-pods /validate-pods", false, "", "called called", report.Fine},
		{"nothing is registered", "", "", "", false, "", "", report.Refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := serving(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch path := r.URL.Path; {
				case r.Method == http.MethodPost && strings.HasSuffix(path, "/pods"):
					var pod struct {
						Metadata struct{ Annotations map[string]string }
					}
					if err := json.NewDecoder(r.Body).Decode(&pod); err != nil || r.URL.Query().Get("dryRun") != "All" || pod.Metadata.Annotations[handlers.CanaryAnnotation] == "" {
						t.Errorf("%s: %v %v", r.URL, err, pod)
					}
					for _, path := range strings.Fields(c.answers) {
						w.Header().Add("Warning", fmt.Sprintf("299 - %q", handlers.CanaryAnswer(path)))
					}
					if c.refused {
						refuse(w, 403, "Forbidden")
						return
					}
					_, _ = fmt.Fprint(w, `{"kind": "Pod", "apiVersion": "v1"}`)
				case strings.HasSuffix(path, "/selfsubjectreviews"):
					_, _ = fmt.Fprint(w, `{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "status": {"userInfo": {"username": "jane"}}}`)
				case strings.HasSuffix(path, "/mutatingwebhookconfigurations"):
					_, _ = fmt.Fprintf(w, `{"items":[{"metadata":{"name":"usher"},"webhooks":[%s]}]}`, c.mutating)
				case strings.HasSuffix(path, "/validatingwebhookconfigurations"):
					_, _ = fmt.Fprintf(w, `{"items":[{"metadata":{"name":"usher"},"webhooks":[%s]}]}`, c.validating)
				case path == "/api/v1/namespaces/shop":
					_, _ = fmt.Fprint(w, `{"metadata":{"name":"shop","labels":{"team":"web"}}}`)
				default:
					refuse(w, 404, "NotFound")
				}
			})
			examiner, err := doctor.NewExaminer(t.Context(), source, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			var needed []webhooks.Hook
			if c.needed != "" {
				var hook registration.MutatingWebhook
				if err := json.Unmarshal([]byte(ushers(c.needed, "")), &hook); err != nil {
					t.Fatal(err)
				}
				needed = append(needed, hook)
			}
			result := examiner.Canary(t.Context(), doctor.CanaryPod(), requests.Options{Operation: admissionv1.Create, Namespace: "shop"}, needed)
			var got []string
			for _, w := range result.Webhooks {
				if w.Called {
					w.Filter = "called"
				}
				got = append(got, w.Filter)
			}
			if strings.Join(got, " ") != c.want || result.Exit() != c.exit || c.refused != strings.Contains(result.Hint, "refused the canary") || c.refused && result.Verdict == report.Passed {
				t.Errorf("%q, exit code %d, %s: %+v", got, result.Exit(), result.Hint, result)
			}
		})
	}
}
