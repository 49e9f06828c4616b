package validators

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/mutators/placement"
)

const (
	selectorKey = "scheduler.alpha.kubernetes.io/node-selector"
	allowedKey  = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// annotated answers all questions with a namespace that has annotations, in pairs.
func annotated(pairs ...string) admit.Questions {
	annotations := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		annotations[pairs[i]] = pairs[i+1]
	}
	return admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{Annotations: annotations}, true, nil
	}}
}

func TestNodeSelectorLimits(t *testing.T) {
	gpu := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	policy := &placement.NodeSelector{
		Allowed:     map[string]map[string]string{"shop": {"pool": "batch", "disk": "ssd"}},
		Tolerations: &placement.TolerationPolicy{ClusterAllowed: []corev1.Toleration{gpu}},
	}
	batch := annotated(selectorKey, "pool=batch")
	const bound, free = `"nodeSelector":{"pool":"batch"}`, `"tolerations":[{"key":"a","operator":"Exists","effect":"NoSchedule"}]`
	for _, c := range []struct {
		name     string
		ask      admit.Questions
		old, now string // the spec; old is empty for a creation
		want     []string
	}{
		{"bound", batch, "", bound, nil},
		{"the selector was removed", batch, "", ``, []string{`spec.nodeSelector[pool]: Required value: annotation ` + selectorKey + ` of the namespace requires pool=batch, which a later webhook has removed; set it`}},
		{"conflict", batch, "", `"nodeSelector":{"pool":"x"}`, []string{`spec.nodeSelector[pool]: Forbidden: "x" conflicts with pool=batch`, `spec.nodeSelector[pool]: Forbidden: pool=x is not allowed in namespace shop`}},
		{"all labels that are not allowed", batch, "", `"nodeSelector":{"pool":"batch","disk":"hdd","zone":"a"}`,
			[]string{`spec.nodeSelector[disk]: Forbidden: disk=hdd is not allowed in namespace shop; nodeSelector.allowed of the policy has disk=ssd,pool=batch`, `spec.nodeSelector[zone]`}},
		{"a toleration", batch, "", bound + `,"tolerations":[{"key":"gpu","operator":"Exists","effect":"NoSchedule"},{"key":"a","effect":"NoExecute","tolerationSeconds":5}]`,
			[]string{`spec.tolerations[1]: Forbidden: a=:NoExecute for 5 s is not covered by nodeSelector.tolerations.clusterAllowed of the policy, which allows gpu; remove it`}},
		{"a list of the namespace", annotated(allowedKey, `[{"operator":"Exists"}]`), "", free, nil},
		{"an empty list of the namespace", annotated(allowedKey, ""), "", free, nil},
		{"unreadable", annotated(selectorKey, "x", allowedKey, "x"), "", free, []string{"metadata.namespace: Forbidden: annotation " + selectorKey, "metadata.namespace: Forbidden: annotation " + allowedKey}},
		{"unreadable, and not asked for", annotated(allowedKey, "x"), "", ``, nil},

		{"what is stored may stay", batch, free, free + `,"x":1`, nil},
		{"unreadable, and nothing new", annotated(selectorKey, "x", allowedKey, "x"), free, free, nil},
		{"a toleration is added", batch, bound, bound + "," + free, []string{`spec.tolerations[0]: Forbidden: a:NoSchedule`}},
		{"too many new tolerations to compare", batch, bound, bound + `,"tolerations":[{}` + strings.Repeat(`,{}`, 500) + `]`, []string{`spec.tolerations: Too many: 501: a pod may have at most 500 tolerations`}},
		{"a gated pod is narrowed", batch, bound, `"nodeSelector":{"pool":"batch","zone":"a"}`, []string{`spec.nodeSelector[zone]: Forbidden`}},
		{"narrowed to what is allowed", batch, bound, `"nodeSelector":{"pool":"batch","disk":"ssd"}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := request(t, around(`{"spec":{`, c.old, `}}`), `{"spec":{`+c.now+`}}`)
			problems, err := nodeSelectorLimits(policy, true, c.ask).Run(t.Context(), req, admit.AsPod(req.Object))
			wantProblems(t, problems, err, c.want)
		})
	}
}

// TestNodeSelectorLimitsIdle: what the step does not judge.
func TestNodeSelectorLimitsIdle(t *testing.T) {
	policy := &placement.NodeSelector{Allowed: map[string]map[string]string{"shop": {"a": "b"}}}
	const pod = `{"metadata":{` + ended + `},"spec":{"nodeSelector":{"c":"d"},"tolerations":[{"key":"x"}]}}`
	for name, c := range map[string]struct {
		policy  *placement.NodeSelector
		selects bool
		change  func(*admit.Request)
	}{
		"a pod that is being deleted":           {policy, true, func(req *admit.Request) { req.Operation, req.OldObject = admissionv1.Update, parsed(t, `{}`) }},
		"an update without the stored object":   {policy, true, func(req *admit.Request) { req.Operation = admissionv1.Update }},
		"no selector is set, none is asked for": {&placement.NodeSelector{}, false, func(*admit.Request) {}},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, "", pod)
			c.change(req)
			problems, err := nodeSelectorLimits(c.policy, c.selects, annotated(selectorKey, "pool=batch")).Run(t.Context(), req, admit.AsPod(req.Object))
			wantProblems(t, problems, err, nil)
		})
	}
	if !nodeSelectorLimits(nil, true, admit.Questions{}).Idle {
		t.Error("without a section the step is not idle")
	}
	missing := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{}, false, fmt.Errorf("namespace shop: %w", admit.ErrNotReady)
	}}
	req := request(t, "", pod)
	if _, err := nodeSelectorLimits(policy, true, missing).Run(t.Context(), req, admit.AsPod(req.Object)); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v, want not ready", err)
	}
}

func BenchmarkNodeSelectorLimits(b *testing.B) {
	policy := &placement.NodeSelector{Tolerations: &placement.TolerationPolicy{ClusterAllowed: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}}
	benchmarkCheck(b, nodeSelectorLimits(policy, true, annotated(selectorKey, "")))
}

// benchmarkCheck measures a check of a new pod of 20 KB, with parsing it.
func benchmarkCheck(b *testing.B, step admit.Validator[admit.Pod]) {
	raw, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		b.Fatal(err)
	}
	review, err := document.Parse(raw)
	if err != nil {
		b.Fatal(err)
	}
	pod := review.Root().At("request", "object").Bytes()
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(pod)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := step.Run(b.Context(), &admit.Request{Operation: admissionv1.Create, Object: d}, admit.AsPod(d)); err != nil {
			b.Fatal(err)
		}
		d.Release()
	}
}
