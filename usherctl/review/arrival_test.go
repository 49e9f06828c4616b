package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/internal/poddefaults"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// rangesOf returns a LimitRange of the namespace ns with an item, as an API server stores it.
func rangesOf(t *testing.T, item string) func(string) ([]*corev1.LimitRange, error) {
	t.Helper()
	r := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.LimitRangeSpec{Limits: make([]corev1.LimitRangeItem, 1)}}
	if err := yaml.Unmarshal([]byte(item), &r.Spec.Limits[0]); err != nil {
		t.Fatal(err)
	}
	poddefaults.LimitRange(r)
	return func(namespace string) ([]*corev1.LimitRange, error) {
		if namespace != "ns" {
			return nil, nil
		}
		return []*corev1.LimitRange{r}, nil
	}
}

// TestArrival: webhooks get a manifest as an API server sends it: with the defaults of the LimitRanges of its Namespace, and only
// validating ones with a generated name.
func TestArrival(t *testing.T) {
	const item, spec = `{type: Container, default: {memory: 1Gi}, defaultRequest: {cpu: 100m}}`, `spec: {containers: [{name: c, image: "i:1", resources: {limits: {cpu: "1"}}}]}`
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: ns}\nspec: {template: {metadata: {labels: {a: b}}, " + spec + "}}"
	both := `"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}`
	said := `"kubernetes.io/limit-ranger":"LimitRanger plugin set: memory request for container c; memory limit for container c`
	for _, c := range []struct {
		name, manifest               string
		operation                    admissionv1.Operation
		mutating, validating, unseen []string
	}{
		{"a pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\n" + spec, "CREATE", []string{both, said}, []string{both, said}, nil},
		{"the pod of a template", deployment, "CREATE", []string{both, said}, []string{both, said, `-x7k2p"`}, nil},
		{"what a mutator adds", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns, annotations: {add: c}}\n" + spec, "CREATE", nil,
			[]string{`{"name":"added","image":"added:1","resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"100m","memory":"1Gi"}}`}, nil},
		{"of another Namespace", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other}\n" + spec, "CREATE", nil, nil, []string{"limit-ranger", "1Gi"}},
		{"a change", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\n" + spec, "UPDATE", nil, nil, []string{"limit-ranger", "1Gi"}},
		{"a prefix", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-, namespace: other}\n" + spec, "CREATE", nil, []string{`"name":"p-x7k2p"`, `request.name=p-x7k2p`}, nil},
		{"a long prefix", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: " + strings.Repeat("a", 60) + ", namespace: ns}", "CREATE", nil,
			[]string{`"name":"` + strings.Repeat("a", 58) + `x7k2p"`}, nil},
		{"an AdmissionReview", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"ns",` +
			`"object":{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-"},"spec":{"containers":[{"name":"c"}]}}}}`, "CREATE", nil, nil, []string{"x7k2p", "limit-ranger"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			documents := requests.WithPods(requests.Read("test", strings.NewReader(c.manifest)), nil, requests.Options{Operation: c.operation}, func(*unstructured.Unstructured) bool { return false })
			body, err := requests.AsReview(documents[0], requests.Options{Operation: c.operation}, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			mutating, validating := "", ""
			result := Run(t.Context(), documents[0], body, Choice{Routes: []admit.Route{seeing(&mutating, true), seeing(&validating, false)}, LimitRanges: rangesOf(t, item)}, kinds)
			wantIn(t, "mutating", mutating, c.mutating, append(c.unseen, "x7k2p"))
			wantIn(t, "validating", validating, c.validating, c.unseen)
			wantIn(t, "after", string(result.After), nil, append(c.unseen, "x7k2p"))
			if strings.Contains(string(result.Before), "limit-ranger") || strings.Contains(validating, "limit-ranger") != strings.Contains(string(result.After), "limit-ranger") {
				t.Errorf("before: %s\nafter: %s", result.Before, result.After)
			}
		})
	}
}

// seeing is a route that notes what it gets. The mutating one adds a container to an object with the annotation add.
func seeing(seen *string, mutates bool) admit.Route {
	note := func(req *admit.Request) { *seen = string(req.Object.Bytes()) + " request.name=" + req.Name }
	operations := []admissionv1.Operation{admissionv1.Create, admissionv1.Update}
	all := slices.Concat(admit.Namespaced(podKind, operations, "pods"), admit.Namespaced(corev1.SchemeGroupVersion.WithKind("ConfigMap"), operations, "configmaps"),
		admit.Namespaced(claimKind, operations, "persistentvolumeclaims"))
	route := admit.Route{Path: "/validate-test", For: all, Chain: admit.Validate(admit.AsMeta, []admit.Validator[admit.Meta]{{Name: "look", Doc: "looks",
		Run: func(_ context.Context, req *admit.Request, _ *admit.Meta) (field.ErrorList, error) {
			note(req)
			return nil, nil
		}}})}
	if mutates {
		route = admit.Route{Path: "/mutate-test", For: all, Chain: admit.Mutate(func(d *document.Document) *document.Document { return d }, []admit.Mutator[document.Document]{{Name: "add", Doc: "adds",
			Run: func(_ context.Context, req *admit.Request, d *document.Document) error {
				if note(req); d.Root().At("metadata", "annotations", "add").Exists() {
					d.Root().At("spec", "containers").Append(corev1.Container{Name: "added", Image: "added:1"})
				}
				return nil
			}}})}
	}
	return route
}

func wantIn(t *testing.T, what, got string, seen, unseen []string) {
	t.Helper()
	for _, want := range seen {
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nlacks %s", what, got, want)
		}
	}
	for _, gone := range unseen {
		if strings.Contains(got, gone) {
			t.Errorf("%s: %s\nhas %s", what, got, gone)
		}
	}
}

// TestRefusedByRanges: what a LimitRange refuses is invalid, whatever validating webhooks say.
func TestRefusedByRanges(t *testing.T) {
	const pod, claim = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: ", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: p, namespace: ns}\nspec: "
	one := func(resources string) string {
		return pod + "{containers: [{name: c, image: i, resources: " + resources + "}]}"
	}
	two := pod + `{containers: [{name: c, image: i, resources: {limits: {cpu: "1"}}}, {name: d, image: i, resources: {limits: {cpu: "2"}}}]}`
	for _, c := range []struct{ name, item, manifest, says string }{
		{"the most", `{type: Container, max: {cpu: "1"}}`, one(`{limits: {cpu: "1"}}`), ""},
		{"more", `{type: Container, max: {cpu: "1"}}`, one(`{limits: {cpu: "2"}}`), "spec.containers[0].resources.limits[cpu]: is 2, and LimitRange small allows at most 1 for each Container"},
		{"the most by default", `{type: Container, max: {cpu: "1"}}`, one(`{}`), ""},
		{"a request of more", `{type: Container, max: {cpu: "1"}}`, one(`{requests: {cpu: "2"}}`), "spec.containers[0].resources.requests[cpu]: Invalid"},
		{"less", `{type: Container, min: {cpu: "1"}}`, one(`{requests: {cpu: 500m}}`), "spec.containers[0].resources.requests[cpu]: is 500m, and LimitRange small demands at least 1 for each Container"},
		{"the least by default", `{type: Container, min: {cpu: "1"}}`, one(`{}`), ""},
		{"of an init container", `{type: Container, max: {cpu: "1"}}`, pod + `{initContainers: [{name: d, image: i, resources: {limits: {cpu: "2"}}}], containers: [{name: c, image: i}]}`, "spec.initContainers[0].resources.limits[cpu]: is 2"},
		{"the ratio", `{type: Container, maxLimitRequestRatio: {cpu: "3"}}`, one(`{limits: {cpu: 900m}, requests: {cpu: 300m}}`), ""},
		{"a larger ratio", `{type: Container, maxLimitRequestRatio: {cpu: "3"}}`, one(`{limits: {cpu: 901m}, requests: {cpu: 300m}}`), "is 901m with a request of 300m, and LimitRange small allows a limit of at most 3 times the request"},
		{"no ratio", `{type: Container, maxLimitRequestRatio: {cpu: "3"}}`, one(`{}`), "spec.containers[0].resources.requests[cpu]: is missing or 0"},
		{"no limit for a ratio", `{type: Container, maxLimitRequestRatio: {cpu: "3"}}`, one(`{requests: {cpu: "1"}}`), "spec.containers[0].resources.limits[cpu]: is missing or 0"},
		{"all containers", `{type: Pod, max: {cpu: "3"}}`, two, ""},
		{"all containers have more", `{type: Pod, max: {cpu: "2"}}`, two, "spec.containers[*].resources.limits[cpu]: is 3, and LimitRange small allows at most 2 for each Pod"},
		{"all containers have no limit", `{type: Pod, max: {cpu: "2"}}`, one(`{}`), "spec.containers[*].resources.limits[cpu]: is missing"},
		{"a claim", `{type: PersistentVolumeClaim, max: {storage: 1Gi}}`, claim + "{resources: {requests: {storage: 1Gi}}}", ""},
		{"a larger claim", `{type: PersistentVolumeClaim, max: {storage: 1Gi}}`, claim + "{resources: {requests: {storage: 2Gi}}}", "spec.resources.requests[storage]: is 2Gi"},
		{"a smaller claim", `{type: PersistentVolumeClaim, min: {storage: 1Gi}}`, claim + "{resources: {requests: {storage: 1Mi}}}", "spec.resources.requests[storage]: is 1Mi"},
		{"of another type", `{type: Pod, max: {storage: 1Gi}}`, claim + "{resources: {requests: {storage: 2Gi}}}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			documents := requests.Read("test", strings.NewReader(c.manifest))
			body, err := requests.AsReview(documents[0], requests.Options{Operation: admissionv1.Create}, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			r := Run(t.Context(), documents[0], body, Choice{Routes: []admit.Route{seeing(new(string), false)}, Validate: true, LimitRanges: rangesOf(t, c.item)}, kinds)
			got := strings.Join(r.Invalid, "; ")
			if want := map[bool]report.Verdict{true: report.Allowed, false: report.Invalid}[c.says == ""]; r.Verdict != want || !strings.Contains(got, c.says) || (c.says == "") != (got == "") {
				t.Errorf("%s because of %q, want %s because of %q", r.Verdict, got, want, c.says)
			}
		})
	}
}

// TestUnknownRanges: a pod whose resources depend on what is not known is not judged.
func TestUnknownRanges(t *testing.T) {
	const container = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\nspec: {containers: [{name: c, image: i, resources: %s}]}"
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: ns}"
	ranges := func(items ...string) (all []*corev1.LimitRange) {
		for _, item := range items {
			some, _ := rangesOf(t, item)("ns")
			all = append(all, some...)
		}
		return all
	}
	small, large, other := `{type: Container, default: {cpu: 500m}}`, `{type: Container, default: {cpu: "1"}}`, `{type: Container, default: {memory: 1Gi}}`
	for _, c := range []struct {
		name, manifest string
		ranges         []*corev1.LimitRange
		err            error
		want           string
	}{
		{"no right", fmt.Sprintf(container, "{}"), nil, errors.New("no right to list them"), "no right"},
		{"no right, and not needed", config, nil, errors.New("no right to list them"), ""},
		{"several", fmt.Sprintf(container, "{}"), ranges(small, large), nil, "may apply them in any order"},
		{"several for what is set", fmt.Sprintf(container, `{limits: {cpu: "1"}}`), ranges(small, large), nil, ""},
		{"several of other resources", fmt.Sprintf(container, "{}"), ranges(small, other), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			documents := requests.Read("test", strings.NewReader(c.manifest))
			body, err := requests.AsReview(documents[0], requests.Options{Operation: admissionv1.Create}, requests.NewCatalogue(nil))
			if err != nil {
				t.Fatal(err)
			}
			r := Run(t.Context(), documents[0], body, Choice{Routes: []admit.Route{seeing(new(string), false)}, Validate: true,
				LimitRanges: func(string) ([]*corev1.LimitRange, error) { return c.ranges, c.err }}, kinds)
			if got := strings.Join(r.Unjudged, ""); (r.Verdict == report.NotJudged) != (c.want != "") || !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%s because of %q, want %q", r.Verdict, got, c.want)
			}
		})
	}
}

// TestPodsOfUnnamedWorkload: a workload whose name the API server generates has pods with names that follow from it.
func TestPodsOfUnnamedWorkload(t *testing.T) {
	const template = "{metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: c, image: \"i:1\"}]}}"
	for _, c := range []struct{ manifest, of, name string }{
		{"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: load-}\nspec: {template: " + template + "}", "Job load-*", "load-x7k2p-*"},
		{"apiVersion: batch/v1\nkind: Job\nmetadata: {name: load, generateName: other-}\nspec: {template: " + template + "}", "Job load", "load-*"},
		{"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {generateName: web-}\nspec: {selector: {matchLabels: {a: b}}, template: " +
			strings.Replace(template, "restartPolicy: Never, ", "", 1) + "}", "ReplicaSet web-*", "web-x7k2p-*"},
	} {
		none := func(*unstructured.Unstructured) bool { return false }
		pod := requests.WithPods(requests.Read("test", strings.NewReader(c.manifest)), nil, requests.Options{Operation: admissionv1.Create, Namespace: "ns"}, none)[0]
		body, err := requests.AsReview(pod, requests.Options{Operation: admissionv1.Create, Namespace: "ns"}, requests.NewCatalogue(nil))
		if err != nil {
			t.Fatal(err)
		}
		r := Run(t.Context(), pod, body, Choice{Routes: []admit.Route{seeing(new(string), false)}, Validate: true}, kinds)
		if r.Verdict != report.Allowed || r.Name != c.name || r.Of != c.of+" → its pods" {
			t.Errorf("%s: %s %s of %q, want %s of %q: %v", c.manifest, r.Verdict, r.Name, r.Of, c.name, c.of, r.Invalid)
		}
	}
}
