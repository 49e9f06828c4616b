package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// withPolicy makes a policy file of the repository active and registers the webhooks that it needs, until the test ends.
func withPolicy(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	policy, err := kubetest.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after setPolicy has restored the policy
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := usher.Register(ctx); err != nil {
			t.Error(err)
		}
	})
	setPolicy(ctx, t, policy)
	if err := usher.Register(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestSidecars: the walk-through of docs/sidecars.md, and another injector after usher.
func TestSidecars(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	withPolicy(ctx, t, "samples/policies/sidecars.yaml")
	cluster.NewPatcher(ctx, t, "zz-after-usher", "apps")
	cases := []struct {
		name, patch string // the patch of the webhook after usher
		controller  string
		want        string   // init containers | containers
		refused     []string // or what the refusal says
	}{
		{"injected", `[]`, "ReplicaSet", "log-agent migrate | app exporter cache", nil},
		{"another-adds", `[{"op": "add", "path": "/spec/containers/0", "value": {"name": "f", "image": "f:1"}}]`, "ReplicaSet",
			"log-agent migrate | f app exporter cache", nil},
		{"another-removes", `[{"op": "remove", "path": "/spec/initContainers/0"}]`, "ReplicaSet", "log-agent migrate | app exporter cache", nil},
		{"another-changes", `[{"op": "replace", "path": "/spec/containers/1/image", "value": "mirror.example.com/exporter:1.9"}]`, "ReplicaSet", "",
			[]string{"validate-pods.usher.dev", "sidecars-present: spec.containers[1].image", "registry.example.com/platform/exporter:1.9"}},
		{"job", `[]`, "Job", "", []string{"mutate-pods.usher.dev", "sidecars: spec.containers: Forbidden", "native sidecar"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod, err := cluster.Admin().Create(ctx, podPath("apps", "")+"?dryRun=All", sidecarPod(c.name, c.patch, c.controller))
			if c.refused != nil {
				checkSays(t, err, c.refused...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := containerNames(pod); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			checkInjected(t, pod)
		})
	}
}

// TestSidecarsOnUpdate: the image of a sidecar can be changed only to the policy's.
func TestSidecarsOnUpdate(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	withPolicy(ctx, t, "samples/policies/sidecars.yaml")
	cluster.DeleteAfter(t, podPath("apps", "settled"))
	if _, err := cluster.Admin().Create(ctx, podPath("apps", ""), sidecarPod("settled", `[]`, "ReplicaSet")); err != nil {
		t.Fatal(err)
	}
	image := func(list, name, image string) error {
		_, err := cluster.Admin().Patch(ctx, podPath("apps", "settled"), kubetest.StrategicPatch,
			fmt.Sprintf(`{"spec": {%q: [{"name": %q, "image": %q}]}}`, list, name, image))
		return err
	}
	checkSays(t, image("containers", "exporter", "example.com/own:1"), "sidecars-present: spec.containers[1].image", "exporter:1.9; set that one")
	checkSays(t, image("initContainers", "log-agent", "example.com/own:1"), "sidecars-present: spec.initContainers[0].image")
	if err := image("containers", "app", "example.com/a:2"); err != nil {
		t.Error(err)
	}
}

// checkInjected checks that the log agent is a native sidecar with its arguments, and that all other containers but the
// exporter, also the other injector's, have the variable.
func checkInjected(t *testing.T, pod kubetest.Object) {
	t.Helper()
	agent := pod.List("spec", "initContainers")[0]
	want := fmt.Sprintf("[--tenant=apps --source=%s --app=web]", pod.String("metadata", "name"))
	if got := fmt.Sprint(agent.At("args")); got != want || agent.String("restartPolicy") != "Always" {
		t.Errorf("the log agent has the arguments %s, want %s: %v", got, want, agent)
	}
	for _, container := range append(pod.List("spec", "initContainers")[1:], pod.List("spec", "containers")...) {
		want := "LOG_DIR=/var/log/app"
		if container.String("name") == "exporter" {
			want = ""
		}
		if got := environment(container); got != want {
			t.Errorf("container %s has the environment %q, want %q", container.String("name"), got, want)
		}
	}
}

func sidecarPod(name, patch, controller string) kubetest.Object {
	version := map[string]string{"ReplicaSet": "apps/v1", "Job": "batch/v1"}[controller]
	return kubetest.Decode(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "labels": {"app": "web", "logs": "ship", "metrics": "true"},
		"annotations": {"patch": %q}, "ownerReferences": [{"apiVersion": %q, "kind": %q, "name": "o", "uid": "u", "controller": true}]},
		"spec": {"initContainers": [{"name": "migrate", "image": "example.com/a:1"}],
			"containers": [{"name": "app", "image": "example.com/a:1"}, {"name": "cache", "image": "example.com/a:1"}]}}`, name, patch, version, controller))
}

// containerNames returns the names of a pod's init containers and containers.
func containerNames(pod kubetest.Object) string {
	var names []string
	for _, c := range pod.List("spec", "initContainers") {
		names = append(names, c.String("name"))
	}
	names = append(names, "|")
	for _, c := range pod.List("spec", "containers") {
		names = append(names, c.String("name"))
	}
	return strings.Join(names, " ")
}
