package mutators

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/labelling"
	"usher.dev/usher/test/seed"
)

// inNamespace answers all questions with one namespace.
func inNamespace(labels, annotations map[string]string) admit.Questions {
	return admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{Labels: labels, Annotations: annotations}, true, nil
	}}
}

// createPod runs a step on a new pod and returns its patch, or its refusal.
func createPod(t *testing.T, step admit.Mutator[admit.Pod], raw string) string {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := step.Run(t.Context(), &admit.Request{Operation: admissionv1.Create, Namespace: "shop", Object: d}, admit.AsPod(d)); err != nil {
		return err.Error()
	}
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return string(d.PatchJSON())
}

// labelPolicy has a default of each kind.
func labelPolicy() labelling.Defaults {
	web := config.Selection{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	gold := config.Selection{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}
	return labelling.Defaults{
		{Selection: web, Labels: []labelling.Value{{Key: "kind", Value: new("front")}}},
		{Selection: gold, Labels: []labelling.Value{{Key: "kind", Value: new("gold")}}},
		{Labels: []labelling.Value{{Key: "team", FromNamespaceLabel: "team"}, {Key: "tier", FromNamespaceLabel: "tier", Value: new("")}},
			Annotations: []labelling.Value{{Key: "acme.com/owner", FromNamespaceAnnotation: "owner"}}},
	}
}

func TestLabelDefaults(t *testing.T) {
	for _, c := range []struct {
		name                string
		labels, annotations map[string]string // of the namespace
		pod, want           string
	}{
		{"a bare namespace and pod", nil, nil, `{}`, `[{"op":"add","path":"/metadata","value":{"labels":{"tier":""}}}]`},
		{"null labels", nil, nil, `{"metadata":{"labels":null}}`, `[{"op":"replace","path":"/metadata/labels","value":{"tier":""}}]`},
		{"what the pod has wins, also if it is empty", map[string]string{"team": "a", "tier": "b"}, map[string]string{"owner": "o"},
			`{"metadata":{"labels":{"team":"","tier":"x"},"annotations":{"acme.com/owner":"me"}}}`, ``},
		{"from the namespace", map[string]string{"team": "a", "tier": "b"}, map[string]string{"owner": "Ö und Co"}, `{"metadata":{"labels":{"x":"y"}}}`,
			`[{"op":"add","path":"/metadata/labels/team","value":"a"},{"op":"add","path":"/metadata/labels/tier","value":"b"},` +
				`{"op":"add","path":"/metadata/annotations","value":{"acme.com/owner":"Ö und Co"}}]`},
		{"the first entry that sets a key wins", map[string]string{"tier": "gold"}, nil, `{"metadata":{"labels":{"app":"web","tier":"x"}}}`,
			`[{"op":"add","path":"/metadata/labels/kind","value":"front"}]`},
		{"by namespace", map[string]string{"tier": "gold"}, nil, `{"metadata":{"labels":{"tier":"x"}}}`,
			`[{"op":"add","path":"/metadata/labels/kind","value":"gold"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := labelDefaults(labelPolicy(), inNamespace(c.labels, c.annotations))
			if got := createPod(t, step, c.pod); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestLabelDefaultsOnlyOnCreate: labels of existing pods are their owner's.
func TestLabelDefaultsOnlyOnCreate(t *testing.T) {
	step := labelDefaults(labelPolicy(), inNamespace(nil, nil))
	for _, req := range []admit.Request{{Operation: admissionv1.Update}, {Operation: admissionv1.Create, SubResource: "ephemeralcontainers"}} {
		d, err := document.Parse([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Object = d
		if err := step.Run(t.Context(), &req, admit.AsPod(d)); err != nil || d.Edits() > 0 {
			t.Errorf("%s %s: %v, %s", req.Operation, req.SubResource, err, d.PatchJSON())
		}
	}
}

// TestLabelDefaultsWithoutNamespace: a namespace that has not arrived is our failure, and asked about only if needed.
func TestLabelDefaultsWithoutNamespace(t *testing.T) {
	ask := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{}, false, fmt.Errorf("namespace shop: %w", admit.ErrNotReady)
	}}
	d, err := document.Parse([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req := &admit.Request{Operation: admissionv1.Create, Object: d}
	if err := labelDefaults(labelPolicy(), ask).Run(t.Context(), req, admit.AsPod(d)); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v, want not ready", err)
	}
	fixed := labelling.Defaults{{Labels: []labelling.Value{{Key: "a", Value: new("b")}}}}
	if got := createPod(t, labelDefaults(fixed, ask), `{}`); !strings.Contains(got, `"a":"b"`) {
		t.Errorf("a fixed value needs no namespace: %s", got)
	}
}

// TestLabelDefaultsTwice: the step's own result, also after another webhook has changed it, is not changed in a label
// that the step has set.
func TestLabelDefaultsTwice(t *testing.T) {
	random := seed.Random(t)
	for range 500 {
		policy := randomDefaults(random)
		if len(labelling.Section.Check(policy, nil)) > 0 {
			continue // selects by what a later entry sets
		}
		step := labelDefaults(policy, inNamespace(randomLabels(random), randomLabels(random)))
		first := afterCreate(t, step, podWith(randomLabels(random), randomLabels(random)))
		if again := createPod(t, step, string(first)); again != "" {
			t.Fatalf("%+v: %s becomes %s", policy, first, again)
		}
		foreign, err := document.Parse(first)
		if err != nil {
			t.Fatal(err)
		}
		admit.AsPod(foreign).SetLabel(randomKey(random), "foreign")
		second := afterCreate(t, step, string(foreign.Bytes()))
		for key, value := range admit.AsPod(foreign).Labels() {
			if got := labelOf(t, second, key); got != value {
				t.Fatalf("%+v: label %s was %q and is %q", policy, key, value, got)
			}
		}
		if again := createPod(t, step, string(second)); again != "" {
			t.Fatalf("%+v: after a foreign change %s becomes %s", policy, second, again)
		}
	}
}

func labelOf(t *testing.T, pod []byte, key string) string {
	t.Helper()
	d, err := document.Parse(pod)
	if err != nil {
		t.Fatal(err)
	}
	return admit.AsPod(d).Label(key)
}

// afterCreate returns a new pod after the step.
func afterCreate(t *testing.T, step admit.Mutator[admit.Pod], raw string) []byte {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := step.Run(t.Context(), &admit.Request{Operation: admissionv1.Create, Object: d}, admit.AsPod(d)); err != nil {
		t.Fatal(err)
	}
	return d.Bytes()
}

func podWith(labels, annotations map[string]string) string {
	d, err := document.Parse([]byte(`{"spec":{}}`))
	if err != nil {
		panic(err)
	}
	pod := admit.AsPod(d)
	for key, value := range labels {
		pod.SetLabel(key, value)
	}
	for key, value := range annotations {
		pod.SetAnnotation(key, value)
	}
	return string(d.Bytes())
}

func randomLabels(random *rand.Rand) map[string]string {
	some := map[string]string{}
	for range random.IntN(4) {
		some[randomKey(random)] = randomKey(random)
	}
	return some
}

func randomKey(random *rand.Rand) string { return string(rune('a' + random.IntN(5))) }

func randomDefaults(random *rand.Rand) (all labelling.Defaults) {
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}
	for range 1 + random.IntN(3) {
		var entry labelling.Default
		if random.IntN(2) == 0 {
			entry.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: randomKey(random), Operator: operators[random.IntN(2)]}}}
		}
		if random.IntN(2) == 0 {
			entry.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{randomKey(random): randomKey(random)}}
		}
		value := labelling.Value{Key: randomKey(random), FromNamespaceLabel: randomKey(random)}
		if random.IntN(2) == 0 {
			value.Value = new(randomKey(random))
		}
		entry.Labels = []labelling.Value{value}
		entry.Annotations = []labelling.Value{{Key: randomKey(random), FromNamespaceAnnotation: randomKey(random)}}
		all = append(all, entry)
	}
	return all
}

func BenchmarkLabelDefaults(b *testing.B) {
	ask := inNamespace(map[string]string{"team": "web"}, nil)
	b.Run("sets three", func(b *testing.B) { benchmarkStep(b, labelDefaults(labelPolicy(), ask)) })
	b.Run("sets nothing", func(b *testing.B) { benchmarkStep(b, labelDefaults(labelPolicy()[:2], ask)) })
}
