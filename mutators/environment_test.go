package mutators

import (
	"slices"
	"testing"

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
		{"the pod lacks it", Env{{"B", "1"}}, `adds spec.containers[0].env[1]: {"name":"B","value":"1"}`},
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
