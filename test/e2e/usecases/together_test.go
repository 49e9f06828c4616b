package usecases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestEverythingTogether: every step for pods works on one pod, another webhook adds a container in front, and the API
// server calls usher again. All of it is in the stored pod once, and usher's own checks accept it.
func TestEverythingTogether(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	namespace(ctx, t, "together", kubetest.Object{"team": "web", "acme.com/cost-center": "c-1"}, nil) // as a policy of another test may ask for
	use(ctx, t, "test/testdata/policies/together.yaml")
	awaitRefusal(ctx, t, "/api/v1/namespaces/together/pods", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "offensive"},
		"spec": {"containers": [{"name": "a", "image": "a"}]}}`)
	cluster.NewPatcher(ctx, t, "zz-after-usher", "together")
	pod, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/together/pods", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-",
		"labels": {"acme.com/lifespan-requested": "13"},
		"annotations": {"patch": "[{\"op\": \"add\", \"path\": \"/spec/containers/0\", \"value\": {\"name\": \"foreign\", \"image\": \"f:1\"}}]"}},
		"spec": {"containers": [{"name": "app", "image": "a:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, got, want string }{
		{"containers", names(pod.List("spec", "containers")), "foreign app logs metrics"},
		{"init containers", names(pod.List("spec", "initContainers")), "proxy"},
		{"volumes", strings.ReplaceAll(names(pod.List("spec", "volumes")), pod.String("metadata", "name"), ""), "certs"},
		{"labels", pod.String("metadata", "labels", "acme.com/team") + " " + pod.String("metadata", "labels", "acme.com/tier"), "web standard"},
		{"node selector", pod.String("spec", "nodeSelector", "kubernetes.io/os"), "linux"},
		{"variables", variables(pod), "foreign: HTTP_PROXY KUBE, app: HTTP_PROXY KUBE, logs: KUBE, metrics: KUBE"},
		{"tolerations", fmt.Sprint(keys(pod.List("spec", "tolerations"))), "map[acme.com/lifespan-remaining:2 node.kubernetes.io/memory-pressure:1 node.kubernetes.io/not-ready:1 " +
			"node.kubernetes.io/unreachable:1 spot:1]"},
		{"resources", fmt.Sprint(pod.List("spec", "containers")[1].At("resources")), "map[limits:map[cpu:2 memory:1Gi] requests:map[cpu:1 memory:512Mi]]"},
	} {
		if c.got != c.want {
			t.Errorf("%s are %s, want %s", c.name, c.got, c.want)
		}
	}
}

// names returns the names of a list's elements, except service account tokens.
func names(list []kubetest.Object) string {
	var all []string
	for _, o := range list {
		if name := o.String("name"); !strings.HasPrefix(name, "kube-api-access") {
			all = append(all, name)
		}
	}
	return strings.Join(all, " ")
}

// variables returns the names of the variables of each container.
func variables(pod kubetest.Object) string {
	var all []string
	for _, c := range pod.List("spec", "containers") {
		all = append(all, c.String("name")+": "+names(c.List("env")))
	}
	return strings.Join(all, ", ")
}

// keys counts the elements of a list by their keys.
func keys(list []kubetest.Object) map[string]int {
	counts := map[string]int{}
	for _, o := range list {
		counts[o.String("key")]++
	}
	return counts
}
