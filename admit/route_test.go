package admit

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/gate"
)

// TestRowsDerive: the fields that a row does not set.
func TestRowsDerive(t *testing.T) {
	check := func(context.Context, *Request, *Pod) (field.ErrorList, error) { return nil, nil }
	reads := Validate(AsPod, []Validator[Pod]{{Name: "reads", Run: check}})
	commits := Validate(AsPod, []Validator[Pod]{{Name: "commits", Gate: "A", Run: check, Commit: check}})
	closed := commits.Gated(func(name gate.Name) bool { return name == "" })
	pods := Namespaced(corev1.SchemeGroupVersion.WithKind("Pod"), []admissionv1.Operation{admissionv1.Create}, "pods", "pods/resize")
	status := ClusterScoped(corev1.SchemeGroupVersion.WithKind("Node"), []admissionv1.Operation{admissionv1.Update}, "nodes/status")
	usual := Call{registration.Fail, 5, registration.IfNeededReinvocationPolicy, Label{}}
	type derived struct {
		webhook     string
		heartbeat   bool
		sideEffects registration.SideEffectClass
		call        Call
	}
	for _, c := range []struct {
		name string
		row  Route
		want derived
	}{
		{"as is usual", Route{Path: "/validate-pods", For: pods, Chain: reads},
			derived{"validate-pods.usher.dev", false, "None", usual}},
		{"exceptions", Route{Path: "/validate-pods", For: pods, Call: Call{FailurePolicy: registration.Ignore, TimeoutSeconds: 2}, Chain: reads},
			derived{"validate-pods.usher.dev", false, "None", Call{registration.Ignore, 2, registration.IfNeededReinvocationPolicy, Label{}}}},
		{"another exception", Route{Path: "/mutate-pods", For: pods, Call: Call{Reinvocation: registration.NeverReinvocationPolicy}},
			derived{"mutate-pods.usher.dev", false, "None", Call{registration.Fail, 5, registration.NeverReinvocationPolicy, Label{}}}},
		{"commits", Route{Path: "/validate-pod", For: pods, Chain: commits},
			derived{"validate-pod.usher.dev", false, "NoneOnDryRun", usual}},
		{"commits behind a closed gate", Route{Path: "/validate-pod", For: pods, Chain: closed},
			derived{"validate-pod.usher.dev", false, "NoneOnDryRun", usual}},
		{"heartbeats", Route{Path: "/mutate-nodes", For: status, Chain: reads},
			derived{"mutate-nodes.usher.dev", true, "None", Call{registration.Ignore, 2, registration.NeverReinvocationPolicy, Label{}}}},
		{"no exception for heartbeats", Route{Path: "/mutate-nodes", For: status, Call: usual, Chain: reads},
			derived{"mutate-nodes.usher.dev", true, "None", Call{registration.Ignore, 2, registration.NeverReinvocationPolicy, Label{}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := OfSuite("wing", usual, []Route{c.row})[0]
			if got := (derived{r.Webhook(), r.Heartbeat(), r.SideEffects(), r.Call}); got != c.want || r.Suite != "wing" {
				t.Errorf("got %+v of suite %s, want %+v", got, r.Suite, c.want)
			}
		})
	}
	if pods[0].Scope != registration.NamespacedScope || status[0].Scope != registration.ClusterScope || len(pods[0].Resources) != 2 {
		t.Errorf("scopes: %+v, %+v", pods, status)
	}
}
