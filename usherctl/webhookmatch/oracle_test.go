package webhookmatch_test

import (
	"math/rand/v2"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/webhookmatch"
)

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func some[T any](random *rand.Rand, from ...T) (list []T) {
	for range 1 + random.IntN(2) {
		list = append(list, pick(random, from...))
	}
	return list
}

func randomSelector(random *rand.Rand) *metav1.LabelSelector {
	switch random.IntN(4) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{pick(random, "a", "b"): pick(random, "1", "2")}}
	}
	s := &metav1.LabelSelector{}
	for range 1 + random.IntN(2) {
		r := metav1.LabelSelectorRequirement{Key: pick(random, "a", "b"), Operator: pick(random, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn,
			metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = some(random, "1", "2", "3")
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

func randomLabels(random *rand.Rand) map[string]any {
	of := map[string]any{}
	for _, key := range []string{"a", "b"} {
		if random.IntN(2) == 0 {
			of[key] = pick(random, "1", "2", "3")
		}
	}
	return of
}

func randomObject(random *rand.Rand) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "X",
		"metadata": map[string]any{"name": "x", "labels": randomLabels(random)}}}
}

// TestLikeTheLibrary: rules and objectSelectors decide as the code of the API server does, for 20,000 random pairs.
func TestLikeTheLibrary(t *testing.T) {
	random := seed.Random(t)
	decided := map[string]int{}
	for range 20000 {
		var w registration.ValidatingWebhook
		for range random.IntN(3) {
			w.Rules = append(w.Rules, registration.RuleWithOperations{
				Operations: some(random, registration.Create, registration.Update, registration.Delete, registration.Connect, registration.OperationAll),
				Rule: registration.Rule{APIGroups: some(random, "", "apps", "*"), APIVersions: some(random, "v1", "v2", "*"),
					Resources: some(random, "pods", "pods/status", "*", "*/*", "*/status", "pods/*", "namespaces", "nodes/status"),
					Scope:     pick(random, nil, new(registration.AllScopes), new(registration.ClusterScope), new(registration.NamespacedScope))}})
		}
		w.ObjectSelector = randomSelector(random)
		resource := schema.GroupVersionResource{Group: pick(random, "", "apps"), Version: pick(random, "v1", "v2"),
			Resource: pick(random, "pods", "nodes", "namespaces")}
		kind := schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: "X"}
		sub, namespace, operation := pick(random, "", "status"), pick(random, "", "shop"),
			pick(random, admissionv1.Create, admissionv1.Update, admissionv1.Delete)
		var now, old *unstructured.Unstructured
		if operation != admissionv1.Delete {
			now = randomObject(random)
		}
		if operation != admissionv1.Create {
			old = randomObject(random)
		}
		r := webhookmatch.Request{AdmissionRequest: &admissionv1.AdmissionRequest{Kind: metav1.GroupVersionKind(kind),
			Resource:    metav1.GroupVersionResource(resource),
			SubResource: sub, Namespace: namespace, Name: "x", Operation: operation, Object: rawOf(t, now), OldObject: rawOf(t, old)}}
		got := new(webhookmatch.Matcher).One(t.Context(), r, webhookmatch.Hook{ValidatingWebhook: w})
		want := likeTheAPIServer(w, admission.NewAttributesRecord(objectOf(now), objectOf(old), kind, namespace, "x", resource, sub,
			admission.Operation(operation), nil, false, nil))
		if got.Called != want {
			t.Fatalf("called %t (%s: %s), the API server: %t\n%+v\n%+v", got.Called, got.Filter, got.Why, want, r.AdmissionRequest, w)
		}
		decided[got.Filter]++
	}
	for _, filter := range []string{"", webhookmatch.Rules, webhookmatch.Scope, webhookmatch.ObjectSelector} {
		if decided[filter] < 200 {
			t.Errorf("filter %q decided %d times, want 200: %v", filter, decided[filter], decided)
		}
	}
}

// provider is a webhook as far as the API server's matcher wants to know it.
type provider struct{ selector *metav1.LabelSelector }

func (p provider) GetParsedObjectSelector() (labels.Selector, error) {
	if p.selector == nil { // which is stored as an empty one
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(p.selector)
}

// likeTheAPIServer is the decision of the API server's own code.
func likeTheAPIServer(w registration.ValidatingWebhook, a admission.Attributes) bool {
	matches, err := new(object.Matcher).MatchObjectSelector(provider{w.ObjectSelector}, a)
	if err != nil || !matches {
		return false
	}
	for _, rule := range w.Rules {
		if m := (rules.Matcher{Rule: rule, Attr: a}); m.Matches() {
			return true
		}
	}
	return false
}

func objectOf(u *unstructured.Unstructured) runtime.Object {
	if u == nil {
		return nil
	}
	return u
}

func rawOf(t *testing.T, u *unstructured.Unstructured) runtime.RawExtension {
	t.Helper()
	if u == nil {
		return runtime.RawExtension{}
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: raw}
}

// FuzzOne: whatever an object and a condition are, there is a verdict with a reason.
func FuzzOne(f *testing.F) {
	f.Add(labelled, "object.metadata.labels.app == 'web'", "app", "web")
	f.Add(`{"metadata":{"labels":7}}`, "object.x > 1", "", "")
	f.Add(`null`, "1", "a b", "!")
	f.Add(`[`, "", "x", "")
	matcher := new(webhookmatch.Matcher)
	f.Fuzz(func(t *testing.T, object, expression, key, value string) {
		h := hook(t, onAll)
		h.MatchConditions = []registration.MatchCondition{{Name: "a", Expression: expression}}
		h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		r := asked{operation: "CREATE", resource: "/v1/pods", namespace: "shop", object: object}.request()
		v := matcher.One(t.Context(), r, h)
		if v.Called == (v.Filter != "") || v.Filter != "" && v.Why == "" {
			t.Errorf("%+v", v)
		}
	})
}
