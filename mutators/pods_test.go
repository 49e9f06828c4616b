package mutators

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// runPod runs a step on a pod and returns its patch, or its refusal.
func runPod(t *testing.T, step admit.Mutator[admit.Pod], raw string) string {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := step.Run(t.Context(), &admit.Request{Object: d}, admit.AsPod(d)); err != nil {
		return err.Error()
	}
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return string(d.PatchJSON())
}

func TestEnvironment(t *testing.T) {
	step := environment([]Variable{{Name: "A", Value: "1"}, {Name: "B", Value: ""}})
	for raw, want := range map[string]string{
		`{"spec":{"containers":[{"name":"c"}]}}`:                                        `[{"op":"add","path":"/spec/containers/0/env","value":[{"name":"A","value":"1"},{"name":"B"}]}]`,
		`{"spec":{"containers":[{"env":[{"name":"B","value":"mine"}]}]}}`:               `[{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"A","value":"1"}}]`,
		`{"spec":{"containers":[{"env":[{"name":"A"},{"name":"B","valueFrom":{}}]}]}}`:  ``,
		`{"spec":{"initContainers":[{}],"containers":null,"ephemeralContainers":[{}]}}`: `[{"op":"add","path":"/spec/initContainers/0/env","value":[{"name":"A","value":"1"},{"name":"B"}]}]`,
		`{"spec":{"containers":[]}}`:                                                    ``,
		`{}`:                                                                            ``,
	} {
		if got := runPod(t, step, raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d, _ := document.Parse([]byte(`{"spec":{"containers":[{}]}}`))
	if err := step.Run(ended, &admit.Request{Object: d}, admit.AsPod(d)); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended: %v", err)
	}
	if got := runPod(t, environment(nil), `{"spec":{"containers":[{}]}}`); got != "" {
		t.Errorf("no variables: %s", got)
	}
}

func TestLifespan(t *testing.T) {
	step := lifespan(&Lifespan{Label: "days", Taint: "left", Max: 3})
	label := func(value string) string { return `{"metadata":{"labels":{"days":"` + value + `"}},"spec":{}}` }
	for value, want := range map[string]string{
		"3": "3", "2": "3 2", "0": "3 2 1 0", "03": "3", "": "any",
		"4": "refused", "-1": "refused", "x": "refused", "1.5": "refused", "99999999999999999999": "refused",
	} {
		got := runPod(t, step, label(value))
		summary := strings.Join(valuesOf(got), " ")
		switch {
		case strings.Contains(got, "from 0 to 3") && strings.Contains(got, "metadata.labels[days]") && strings.Contains(got, value):
			summary = "refused"
		case strings.Contains(got, `"operator":"Exists"`):
			summary = "any"
		}
		if summary != want {
			t.Errorf("label %q: %s, want %s", value, got, want)
		}
	}
	tolerant := `{"metadata":{"labels":{"days":"2"}},"spec":{"tolerations":[{"key":"left","value":"3","effect":"NoSchedule"},{"key":"left","value":"2"}]}}`
	if got := valuesOf(runPod(t, step, tolerant)); len(got) != 1 || got[0] != "2" { // one that has no effect is another toleration
		t.Errorf("tolerated already: %v", got)
	}
	if got := runPod(t, lifespan(nil), label("x")); got != "" {
		t.Errorf("no policy: %s", got)
	}
}

// valuesOf lists the values of the tolerations in a patch.
func valuesOf(patch string) (values []string) {
	for _, part := range strings.Split(patch, `"operator":"Equal","value":"`)[1:] {
		value, _, _ := strings.Cut(part, `"`)
		values = append(values, value)
	}
	return values
}

// benchmarkStep measures a step on a new pod of 20 KB, with parsing it and writing the patch.
func benchmarkStep(b *testing.B, step admit.Mutator[admit.Pod]) {
	raw := productionPod(b)
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		req := &admit.Request{Operation: admissionv1.Create, Namespace: "shop", Object: d}
		if err := step.Run(b.Context(), req, admit.AsPod(d)); err != nil {
			b.Fatal(err)
		}
		_ = d.PatchJSON()
		d.Release()
	}
}

// productionPod returns the pod of 20 KB of the samples.
func productionPod(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		t.Fatal(err)
	}
	review, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return review.Root().At("request", "object").Bytes()
}
