package policytest

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
)

// poolOf returns a pool that the test closes.
func poolOf(t *testing.T) *review.Pool {
	pool := new(review.Pool)
	t.Cleanup(pool.Close)
	return pool
}

// TestForeignSidecar: a step may change the container that another webhook has added, and nothing else.
func TestForeignSidecar(t *testing.T) {
	for _, c := range []struct {
		name string
		step func(*admit.Pod)
		want string
	}{
		{"changes every container", func(pod *admit.Pod) {
			for c := range pod.Containers() {
				c.AddEnv([]corev1.EnvVar{{Name: "A", Value: "b"}})
			}
		}, ""},
		{"describes all containers", func(pod *admit.Pod) { pod.Root().At("metadata", "annotations", "containers").Set(names(pod)) }, ""},
		{"labels the pod by its first container", func(pod *admit.Pod) { pod.Root().At("metadata", "labels", "first").Set(names(pod)[:3]) }, "+    first: for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := admit.Mutator[admit.Pod]{Name: "step", Run: func(_ context.Context, _ *admit.Request, pod *admit.Pod) error { c.step(pod); return nil }}
			route := admit.Route{Path: "/mutate-pods", For: admit.Pods(admissionv1.Create), Call: admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 10, Reinvocation: registration.NeverReinvocationPolicy}, Chain: admit.Mutate(admit.AsPod, []admit.Mutator[admit.Pod]{step})}
			w := &instance{pool: poolOf(t), routes: []admit.Route{route}, opened: opened{catalogue: requests.NewCatalogue([]admit.Route{route}), steps: []string{"step"}, missing: new(questions)}}
			found, problems := Read("dir/case.yaml", []byte("manifest: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: app, image: nginx}]}}\nexpect: {verdict: allowed}\n"))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			r := runIn(t.Context(), w, found[0], nil).Report
			switch {
			case c.want == "" && r.Verdict != "passed":
				t.Errorf("%s: %+v", r.Verdict, r.Findings)
			case c.want != "" && (len(r.Findings) != 1 || r.Findings[0].ID != "foreign-sidecar" || !strings.Contains(r.Findings[0].Diff, c.want)):
				t.Errorf("%s: %+v", r.Verdict, r.Findings)
			}
		})
	}
}

func names(pod *admit.Pod) string {
	var all []string
	for c := range pod.Containers() {
		all = append(all, c.Name())
	}
	return strings.Join(all, " ")
}
