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
	"usher.dev/usher/usherctl/review"
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
		exit                       review.Exit
	}{
		{"both", mutate, validate, "/mutate-pods /validate-pods", false, "", "called called", review.Fine},
		{"another namespace", mutate, ushers("validate-pods", elsewhere), "/mutate-pods", false, "", "called namespaceSelector", review.Refused},
		{"for other objects", mutate, strings.Replace(validate, `["pods"]`, `["secrets"]`, 1), "/mutate-pods", false, "", "called rules", review.Fine},
		{"for other objects, though needed", mutate, strings.Replace(validate, `["v1"]`, `["v1beta1"]`, 1), "/mutate-pods", false, "validate-pods", "called rules", review.Refused},
		{"for cluster-scoped ones, though needed", mutate, strings.Replace(validate, `["pods"]`, `["pods"], "scope": "Cluster"`, 1), "/mutate-pods", false, "validate-pods", "called scope", review.Refused},
		{"a slash at the end", mutate, strings.Replace(validate, `/validate-pods"`, `/validate-pods/"`, 1), "/mutate-pods /validate-pods", false, "", "called called", review.Fine},
		{"for other objects alone", strings.Replace(mutate, `["pods"]`, `["secrets"]`, 1), "", "", false, "", "rules", review.Refused},
		{"switched off", mutate, validate, "/mutate-pods", false, "", "called unanswered", review.Refused},
		{"it may have failed", mutate, ushers("validate-pods", lenient), "/mutate-pods", false, "", "called unknown", review.Unjudged},
		{"nothing answers", mutate, validate, "", false, "", "unknown unknown", review.Unjudged},
		{"another server", mutate, ushers("validate-pods", old), "/mutate-pods", false, "", "called unknown", review.Unjudged},
		{"refused before", mutate, validate, "/mutate-pods", true, "", "called unknown", review.Unjudged},
		{"refused by usher, or by another webhook", mutate, validate, "/mutate-pods /validate-pods", true, "", "called called", review.Refused},
		{"refused, and in no way for it", mutate, ushers("validate-pods", elsewhere), "", true, "", "unknown namespaceSelector", review.Unjudged},
		{"refused, and perhaps changed before", mutate, ushers("validate-pods", labelled), "/mutate-pods", true, "", "called unknown", review.Unjudged},
		{"changed before", mutate, ushers("validate-pods", labelled), "/mutate-pods /validate-pods", false, "", "called called", review.Fine},
		{"two for one answer", mutate, validate + "," + strings.Replace(validate, "validate-pods", "second", 1), "/mutate-pods /validate-pods", false, "", "called unknown unknown", review.Unjudged},
		{"no dry runs", mutate, ushers("validate-pods", `, "sideEffects": "Some"`), "/mutate-pods", false, "", "called unknown", review.Unjudged},
		{"not registered", mutate, "", "/mutate-pods", false, "validate-pods", "called registration", review.Refused},
		{"in a file", mutate, "", "/mutate-pods /validate-pods", false, "validate-pods", "called called", review.Fine},
		{"in a file, and not needed", mutate, "", "/mutate-pods /validate-pods", false, "", "called called", review.Fine},
		{"nothing is registered", "", "", "", false, "", "", review.Refused},
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
			examiner, err := doctor.NewExaminer(t.Context(), source, review.NewCatalogue(nil))
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
			report := examiner.Canary(t.Context(), doctor.CanaryPod(), review.Options{Operation: admissionv1.Create, Namespace: "shop"}, needed)
			var got []string
			for _, w := range report.Webhooks {
				if w.Called {
					w.Filter = "called"
				}
				got = append(got, w.Filter)
			}
			if strings.Join(got, " ") != c.want || report.Exit() != c.exit || c.refused != strings.Contains(report.Hint, "refused the canary") || c.refused && report.Verdict == review.Passed {
				t.Errorf("%q, exit code %d, %s: %+v", got, report.Exit(), report.Hint, report)
			}
		})
	}
}
