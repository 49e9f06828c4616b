package review

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// TestInvalid: an API server looks at types before it calls a webhook, and at all else between the mutating and the validating ones.
func TestInvalid(t *testing.T) {
	refuse := func(path string) admit.Route {
		return admit.Route{Path: path, For: admit.Namespaced(podKind, []admissionv1.Operation{admissionv1.Create}, "pods"),
			Chain: admit.Validate(admit.AsMeta, []admit.Validator[admit.Meta]{{Name: "refuse", Doc: "refuses",
				Run: func(context.Context, *admit.Request, *admit.Meta) (field.ErrorList, error) {
					return field.ErrorList{field.Forbidden(field.NewPath("metadata"), "no")}, nil
				}}})}
	}
	for _, c := range []struct {
		name, metadata, spec string
		route                admit.Route
		want                 report.Verdict
		says                 string
	}{
		{"valid", "name: p", "containers: [{name: c, image: i}]", writing("metadata/labels/a", admissionv1.Create), report.Allowed, ""},
		{"valid and refused", "name: p", "containers: [{name: c, image: i}]", refuse("/validate-test"), report.Denied, ""},
		{"no containers", "name: p", "", writing("metadata/labels/a", admissionv1.Create), report.Invalid, "spec.containers"},
		{"no containers, and refused afterwards", "name: p", "", refuse("/validate-test"), report.Invalid, "spec.containers"},
		{"no containers, and refused before", "name: p", "", refuse("/mutate-test"), report.Denied, "spec.containers"},
		{"a wrong type, which is first", "name: p", "containers: {}", refuse("/mutate-test"), report.Invalid, "spec.containers: must be a list"},
		{"a volume twice", "name: p", "containers: [{name: c, image: i}], volumes: [{name: a}, {name: b}, {name: a}]", refuse("/validate-test"), report.Invalid, `spec.volumes[2].name: Duplicate value: "a"`},
		{"a mount of no volume", "name: p", "containers: [{name: c, image: i, volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}]}], volumes: [{name: a}]", refuse("/validate-test"), report.Invalid,
			`spec.containers[0].volumeMounts[1].name: Not found: "b"`},
		{"a device of no volume", "name: p", "initContainers: [{name: d, image: i, volumeDevices: [{name: b, devicePath: /b}]}], containers: [{name: c, image: i}]", refuse("/validate-test"), report.Invalid,
			`spec.initContainers[0].volumeDevices[0].name: Not found: "b"`},
		{"another port of the node", "name: p", "hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 80}, {containerPort: 81, hostPort: 82}]}]", refuse("/validate-test"), report.Invalid,
			"spec.containers[0].ports[1].hostPort: Invalid value: 82"},
		{"another port of the node, forwarded", "name: p", "containers: [{name: c, image: i, ports: [{containerPort: 81, hostPort: 82}]}]", refuse("/validate-test"), report.Denied, ""},
		{"no name", "labels: {}", "containers: [{name: c, image: i}]", refuse("/validate-test"), report.Invalid, "metadata.name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			documents := requests.Read("test", strings.NewReader("apiVersion: v1\nkind: Pod\nmetadata: {"+c.metadata+"}\nspec: {"+c.spec+"}\n"))
			body, err := requests.AsReview(documents[0], requests.Options{Operation: admissionv1.Create}, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			r := Run(t.Context(), documents[0], body, Choice{Routes: []admit.Route{c.route}, Validate: true}, kinds)
			if got := strings.Join(r.Invalid, "; "); r.Verdict != c.want || !strings.Contains(got, c.says) || (c.says == "") != (got == "") {
				t.Errorf("%s because of %q, want %s because of %q", r.Verdict, got, c.want, c.says)
			}
		})
	}
}

// TestInvalidKinds: what an API server refuses of kinds that are no pods.
func TestInvalidKinds(t *testing.T) {
	for manifest, want := range map[string]string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":1}}`:   "data: must be text, and is a number",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}`: "",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"},"spec":"text"}`:    "spec: must be a mapping, and is text",
		`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","volumeMounts":[{"name":"data","mountPath":"/a"}]}]}},"volumeClaimTemplates":[{"metadata":{"name":"data"}}]}}`: "",
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"Not_A_Name"}}`:                         "metadata.name",
		`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"Not_A_Name"}}`: "metadata.name",
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"Not_A_Name"}}`:  "",
		`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"p"},"spec":[]}`:     "spec: must be a mapping, and is a list",
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"data":{"a":1}}`:        "",
	} {
		if got := strings.Join(invalid([]byte(manifest)), "; "); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", manifest, got, want)
		}
	}
}
