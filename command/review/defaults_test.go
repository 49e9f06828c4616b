package review

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// TestDefaults: a validating route sees what the API server fills in, and the report and the mutating routes the object as it was sent.
func TestDefaults(t *testing.T) {
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"mine":1,"template":{"spec":{"containers":[{"name":"c","image":"example.com:5000/a"}]}}}}`
	for _, c := range []struct{ name, manifest, seen, unseen string }{
		{"a Deployment", deployment, `"replicas":1,`, `"mine"`},
		{"its template", deployment, `"imagePullPolicy":"Always"`, `"tolerations"`},
		{"a pod", strings.Replace(pod, "{mine: 1}", "{containers: [{name: c, image: 'a@sha256:0', resources: {limits: {cpu: 2}}}]}", 1), `"requests":{"cpu":"2"}`, "Always\"}]"},
		{"a Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"b"}}`, `"data":{"a":"Yg=="}`, "stringData"},
		{"a Namespace", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, `"kubernetes.io/metadata.name":"n"`, "default"},
		{"a Job without labels", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
			`"metadata":{"name":"j","labels":{"a":"b"}}`, "tolerations"},
		{"another kind", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"mine":1}}`, `"mine": 1`, "status"},
		{"a wrong type", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{"containers":"none"}}`, `"none"`, "Always"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := ""
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(c.manifest), &object.Object); err != nil {
				t.Fatal(err)
			}
			plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			look := admit.Route{Path: "/validate-test", For: admit.Namespaced(object.GroupVersionKind(), []admissionv1.Operation{admissionv1.Create}, plural.Resource), Chain: admit.Validate(func(d *document.Document) *document.Document { return d },
				[]admit.Validator[document.Document]{{Name: "look", Doc: "looks", Run: func(_ context.Context, req *admit.Request, _ *document.Document) (field.ErrorList, error) {
					seen = string(req.Object.Bytes())
					return nil, nil
				}}})}
			report := runOn(t, c.manifest, Options{Operation: admissionv1.Create}, look)
			if !strings.Contains(seen, c.seen) || strings.Contains(seen, c.unseen) || string(report.Before) != string(report.After) || strings.Contains(string(report.After), "25%") {
				t.Errorf("the route saw %s, the report has %s", seen, report.After)
			}
		})
	}
}
