package mutators

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/mutators/placement"
	"usher.dev/usher/test/seed"
)

const (
	selectorKey    = "scheduler.alpha.kubernetes.io/node-selector"
	tolerationsKey = "scheduler.alpha.kubernetes.io/defaultTolerations"
)

func TestNodeSelector(t *testing.T) {
	policy := &placement.NodeSelector{
		ClusterDefault: map[string]string{"pool": "general"},
		Tolerations:    &placement.TolerationPolicy{ClusterDefault: []corev1.Toleration{{Key: "general", Operator: corev1.TolerationOpExists}}},
	}
	general := `{"op":"add","path":"/spec/tolerations","value":[{"key":"general","operator":"Exists"}]}`
	for _, c := range []struct {
		name        string
		annotations map[string]string
		pod, want   string
	}{
		{"defaults", nil, `{"spec":{}}`, `[{"op":"add","path":"/spec/nodeSelector","value":{"pool":"general"}},` + general + `]`},
		{"null", nil, `{"spec":{"nodeSelector":null,"tolerations":null}}`,
			`[{"op":"replace","path":"/spec/nodeSelector","value":{"pool":"general"}},` + strings.Replace(general, "add", "replace", 1) + `]`},
		{"what the pod has", nil, `{"spec":{"nodeSelector":{"disk":"ssd","pool":"general"},"tolerations":[{"key":"general","operator":"Exists","x":1}]}}`, ``},
		{"empty annotations", map[string]string{selectorKey: "", tolerationsKey: ""}, `{"spec":{}}`, ``},
		{"merged", map[string]string{selectorKey: "pool=batch,disk=ssd", tolerationsKey: "[]"}, `{"spec":{"nodeSelector":{"zone":"a"}}}`,
			`[{"op":"add","path":"/spec/nodeSelector/disk","value":"ssd"},{"op":"add","path":"/spec/nodeSelector/pool","value":"batch"}]`},
		{"conflict", map[string]string{selectorKey: "pool=batch"}, `{"spec":{"nodeSelector":{"pool":"general"}}}`,
			`spec.nodeSelector[pool]: Forbidden: "general" conflicts with pool=batch of annotation scheduler.alpha.kubernetes.io/node-selector of the namespace; remove it, or set that value`},
		{"conflict with the default", nil, `{"spec":{"nodeSelector":{"pool":""}}}`,
			`spec.nodeSelector[pool]: Forbidden: "" conflicts with pool=general of nodeSelector.clusterDefault of the policy; remove it, or set that value`},
		{"not BestEffort", map[string]string{selectorKey: "", tolerationsKey: "[]"}, `{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
			`[{"op":"add","path":"/spec/tolerations","value":[{"key":"node.kubernetes.io/memory-pressure","operator":"Exists","effect":"NoSchedule"}]}]`},
		{"what covers others is kept", map[string]string{selectorKey: "", tolerationsKey: `[{"operator":"Exists"}]`},
			`{"spec":{"tolerations":[{"key":"a","operator":"Exists"}],"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
			`[{"op":"remove","path":"/spec/tolerations/0"},{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`},
		{"too many to compare", map[string]string{selectorKey: ""}, `{"spec":{"tolerations":[{}` + strings.Repeat(`,{}`, 500) + `]}}`,
			`spec.tolerations: Too many: 501: a pod may have at most 500 tolerations; use operator Exists to tolerate several taints by one`},
		{"unreadable", map[string]string{tolerationsKey: `{}`}, `{"spec":{}}`, `metadata.namespace: Forbidden: annotation ` + tolerationsKey + ` of the namespace is "{}", which cannot be read: ` +
			`has a object where the type has something else; its administrator must correct it: write JSON such as [{"key": "gpu", "operator": "Exists"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := createPod(t, nodeSelector(policy, inNamespace(nil, c.annotations)), c.pod); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
	if !nodeSelector(nil, admit.Questions{}).Idle {
		t.Error("without a section the step is not idle")
	}
	if got := createPod(t, nodeSelector(&placement.NodeSelector{}, inNamespace(nil, map[string]string{tolerationsKey: "{}"})), `{}`); got != "" {
		t.Errorf("no policy on tolerations: %s", got)
	}
}

// TestNodeSelectorOnUpdate: unlike the plugins, the step adds nothing to stored pods and in subresources, no toleration of memory pressure either.
func TestNodeSelectorOnUpdate(t *testing.T) {
	policy := &placement.NodeSelector{ClusterDefault: map[string]string{"pool": "general"}, Tolerations: &placement.TolerationPolicy{}}
	for _, req := range []admit.Request{{Operation: admissionv1.Update}, {Operation: admissionv1.Update, SubResource: "resize"}, {Operation: admissionv1.Create, SubResource: "binding"}} {
		d, err := document.Parse([]byte(`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Object = d
		if err := nodeSelector(policy, inNamespace(nil, nil)).Run(t.Context(), &req, admit.AsPod(d)); err != nil || d.Edits() != 0 {
			t.Errorf("%s %s: %d edits, %v", req.Operation, req.SubResource, d.Edits(), err)
		}
	}
}

// TestNodeSelectorWithoutNamespace: a namespace that has not arrived is our failure.
func TestNodeSelectorWithoutNamespace(t *testing.T) {
	ask := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{}, false, fmt.Errorf("namespace shop: %w", admit.ErrNotReady)
	}}
	d, err := document.Parse([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req := &admit.Request{Operation: admissionv1.Create, Object: d}
	if err := nodeSelector(&placement.NodeSelector{}, ask).Run(t.Context(), req, admit.AsPod(d)); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v, want not ready", err)
	}
}

// TestNodeSelectorTwice: the result of the chain, also after another webhook has changed it, is not changed again.
// lifespan adds tolerations that a default one may cover.
func TestNodeSelectorTwice(t *testing.T) {
	random := seed.Random(t)
	for range 500 {
		annotations := map[string]string{selectorKey: "pool=batch"}
		if random.IntN(4) > 0 {
			annotations[tolerationsKey] = randomTolerations(t, random)
		}
		steps := []admit.Mutator[admit.Pod]{
			lifespan(&Lifespan{Label: "days", Taint: "a", Max: 3}),
			nodeSelector(&placement.NodeSelector{Tolerations: &placement.TolerationPolicy{}}, inNamespace(nil, annotations)),
		}
		pod := fmt.Sprintf(`{"metadata":{"labels":{"days":"%d"}},"spec":{"tolerations":%s,"containers":[{"resources":{"requests":{"cpu":"%d"}}}]}}`,
			random.IntN(4), randomTolerations(t, random), random.IntN(2))
		once, _ := chained(t, steps, pod)
		if _, patch := chained(t, steps, once); patch != "" {
			t.Fatalf("%v: %s becomes\n%s\nand then %s", annotations, pod, once, patch)
		}
		foreign, err := document.Parse([]byte(once))
		if err != nil {
			t.Fatal(err)
		}
		admit.AsPod(foreign).AppendToleration(randomToleration(random))
		second, _ := chained(t, steps, string(foreign.Bytes()))
		if _, patch := chained(t, steps, second); patch != "" {
			t.Fatalf("%v: %s becomes\n%s\nand then %s", annotations, foreign.Bytes(), second, patch)
		}
	}
}

// chained returns a new pod after the steps, and their patch.
func chained(t *testing.T, steps []admit.Mutator[admit.Pod], raw string) (after, patch string) {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	req := &admit.Request{Operation: admissionv1.Create, Object: d}
	result, err := admit.Mutate(admit.AsPod, steps).Run(t.Context(), req, nil)
	if err != nil || len(result.Problems) > 0 {
		t.Fatal(err, result.Problems)
	}
	return string(d.Bytes()), string(d.PatchJSON())
}

func randomTolerations(t *testing.T, random *rand.Rand) string {
	t.Helper()
	all := []corev1.Toleration{}
	for range random.IntN(4) {
		all = append(all, randomToleration(random))
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// randomToleration returns one that the API server accepts.
func randomToleration(random *rand.Rand) corev1.Toleration {
	t := corev1.Toleration{
		Key: []string{"a", "b"}[random.IntN(2)], Effect: []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}[random.IntN(3)],
		Operator: []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists}[random.IntN(3)],
	}
	if t.Operator != corev1.TolerationOpExists {
		t.Value = []string{"", "1", "2"}[random.IntN(3)]
	} else if random.IntN(3) == 0 {
		t.Key = ""
	}
	if t.Effect == corev1.TaintEffectNoExecute && random.IntN(2) == 0 {
		t.TolerationSeconds = new(random.Int64N(3))
	}
	return t
}

func BenchmarkNodeSelector(b *testing.B) {
	policy := &placement.NodeSelector{Tolerations: &placement.TolerationPolicy{}}
	b.Run("adds both", func(b *testing.B) {
		benchmarkStep(b, nodeSelector(policy, inNamespace(nil, map[string]string{selectorKey: "pool=batch", tolerationsKey: `[{"key":"gpu","operator":"Exists"}]`})))
	})
	b.Run("no selector", func(b *testing.B) {
		benchmarkStep(b, nodeSelector(&placement.NodeSelector{}, inNamespace(nil, nil)))
	})
}
