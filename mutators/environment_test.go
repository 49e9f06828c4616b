package mutators

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// TestEnvironmentExplains: a policy without variables is the reason why nothing changes, and not the pod.
func TestEnvironmentExplains(t *testing.T) {
	for _, c := range []struct {
		name      string
		variables Env
		want      string
	}{
		{"no variable", nil, "env of the policy names no variable"},
		{"the pod has it", Env{{"A", "1"}}, "the object is already as the step would leave it"},
		{"the pod lacks it", Env{{"B", "1"}}, `adds spec.containers[0].env[0]: {"name":"B","value":"1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := document.Parse([]byte(`{"spec":{"containers":[{"env":[{"name":"A","value":"2"}]}]}}`))
			if err != nil {
				t.Fatal(err)
			}
			chain := admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{environment(c.variables)}).Explained()
			result, err := chain.Run(t.Context(), &admit.Request{Object: d}, nil)
			if err != nil || !slices.Equal(result.Steps[0].Why, []string{c.want}) {
				t.Errorf("%q, want %q; %v", result.Steps[0].Why, c.want, err)
			}
		})
	}
}

// TestEnvironmentOrder: the policy's variables come first, so that the pod's own may refer to them, but those that refer to the
// pod's own come last. A second run changes nothing.
func TestEnvironmentOrder(t *testing.T) {
	for _, c := range []struct{ about, policy, pod, want string }{
		{"in the policy's order", "A=1 B=$(A)", "X=$(B)", "A=1 B=$(A) X=$(B)"},
		{"one refers to the pod's", "A=1 B=$(A)-$(X) C=$(A)", "X=$(A)", "A=1 C=$(A) X=$(A) B=$(A)-$(X)"},
		{"by another", "A=$(X) B=$(A) C=$(D) D=1", "X=1", "C=$(D) D=1 X=1 A=$(X) B=$(A)"},
		{"the pod has one", "A=1 B=$(A) C=2", "X=1 A=$(X) Y=$(C)", "C=2 X=1 A=$(X) Y=$(C) B=$(A)"},
		{"no reference", "A=$$(X) B=$X C=$(X D=$() E=$", "X=1", "A=$$(X) B=$X C=$(X D=$() E=$ X=1"},
		{"after a dollar sign", "A=$$$(X)", "X=1", "X=1 A=$$$(X)"},
		{"no variables", "A=$(X)", "", "A=$(X)"},
	} {
		vars := func(text string) (all Env) {
			for _, pair := range strings.Fields(text) {
				name, value, _ := strings.Cut(pair, "=")
				all = append(all, Variable{name, value})
			}
			return all
		}
		pod, _ := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"env": vars(c.pod)}}}})
		for _, raw := range []string{string(pod), afterwards(t, environment(vars(c.policy)), string(pod))} {
			var got corev1.Pod
			if err := json.Unmarshal([]byte(afterwards(t, environment(vars(c.policy)), raw)), &got); err != nil {
				t.Fatal(err)
			}
			var env []string
			for _, v := range got.Spec.Containers[0].Env {
				env = append(env, v.Name+"="+v.Value)
			}
			if is := strings.Join(env, " "); is != c.want {
				t.Errorf("%s: %s, want %s", c.about, is, c.want)
			}
		}
	}
}

// afterwards returns a pod as a step leaves it.
func afterwards(t *testing.T, step admit.Mutator[admit.Pod], raw string) string {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err == nil {
		err = step.Run(t.Context(), &admit.Request{Object: d}, admit.AsPod(d))
	}
	if err != nil || d.Err() != nil {
		t.Fatal(err, d.Err())
	}
	return string(d.Bytes())
}
