package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// Helpers for several topics.

// optIn is the label by which namespaces and nodes opt in to the core suite's routes.
const optIn = "admission-webhook"

// namespace creates a namespace. It remains, because deletion needs the controller manager.
func namespace(ctx context.Context, t *testing.T, name string, labels kubetest.Object) string {
	t.Helper()
	object := kubetest.Object{"metadata": kubetest.Object{"name": name, "labels": labels}}
	_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces", object)
	if err != nil && code(err) != 409 { // with -count it already exists
		t.Fatal(err)
	}
	return name
}

func podPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/pods/" + name
}

// stored reads an object as it is stored.
func stored(ctx context.Context, t *testing.T, path string) kubetest.Object {
	t.Helper()
	object, err := cluster.Admin().Get(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func checkNotStored(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	if _, err := cluster.Admin().Get(ctx, path); code(err) != 404 {
		t.Errorf("%s should not be there: %v", path, err)
	}
}

// code returns the HTTP status of a refusal by the API server, or 0.
func code(err error) int {
	var refused *kubetest.StatusError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

// checkSays checks that an error contains texts.
func checkSays(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("it succeeded; it should fail with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("it does not say %q:\n%v", text, err)
		}
	}
}

// pod has an init container, a container without an environment and one that sets KUBE itself.
func pod(namespace, name, lifespan string) kubetest.Object {
	return kubetest.Decode(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod",
		"metadata": {"name": %q, "namespace": %q, "labels": {"acme.com/lifespan-requested": %q}},
		"spec": {"initContainers": [{"name": "init", "image": "example.com/a:1"}],
			"containers": [{"name": "a", "image": "example.com/a:1"},
				{"name": "own", "image": "example.com/a:1", "env": [{"name": "KUBE", "value": "mine"}]}]}}`, name, namespace, lifespan))
}

// checkSeated checks the results of the mutating route for pods: the days, and KUBE in every container.
func checkSeated(t *testing.T, pod kubetest.Object, wantDays string) {
	t.Helper()
	if got := days(pod); got != wantDays {
		t.Errorf("tolerated days %q, want %q", got, wantDays)
	}
	for _, container := range append(pod.List("spec", "initContainers"), pod.List("spec", "containers")...) {
		want := "KUBE=true"
		if container.String("name") == "own" {
			want = "KUBE=mine"
		}
		if got := environment(container); got != want {
			t.Errorf("container %s has the environment %q, want %q", container.String("name"), got, want)
		}
	}
}

// checkUntouched checks a pod for which usher was not called.
func checkUntouched(t *testing.T, pod kubetest.Object) {
	t.Helper()
	if got := days(pod); got != "" {
		t.Errorf("usher gave it days: %q", got)
	}
	if got := environment(pod.List("spec", "containers")[0]); got != "" {
		t.Errorf("usher gave it an environment: %q", got)
	}
}

// days returns the tolerated days in order; "any" tolerates all.
func days(pod kubetest.Object) string {
	var days []string
	for _, toleration := range pod.List("spec", "tolerations") {
		switch {
		case toleration.String("key") != "acme.com/lifespan-remaining":
		case toleration.String("operator") == "Exists":
			days = append(days, "any")
		default:
			days = append(days, toleration.String("value"))
		}
	}
	return strings.Join(days, " ")
}

func environment(container kubetest.Object) string {
	var variables []string
	for _, variable := range container.List("env") {
		variables = append(variables, variable.String("name")+"="+variable.String("value"))
	}
	return strings.Join(variables, " ")
}

// shipped returns the policy of deploy/base. The cluster starts with it, and every test restores it.
func shipped(t *testing.T) string {
	t.Helper()
	text, err := kubetest.ReadFile("deploy/base/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// edited returns the shipped policy with a change. The test fails if the change has no effect.
func edited(t *testing.T, old, new string) string {
	t.Helper()
	text := shipped(t)
	if !strings.Contains(text, old) {
		t.Fatalf("deploy/base/policy.yaml has no %q any more", old)
	}
	return strings.Replace(text, old, new, 1)
}

// policyInForce is the last policy of setPolicy, or "" for the initial policy.
var policyInForce string

// setPolicy replaces the policy file, waits until both replicas use it, and restores the shipped policy after the test.
func setPolicy(ctx context.Context, t *testing.T, policy string) {
	t.Helper()
	if err := usePolicy(ctx, policy); err != nil {
		t.Fatal(err)
	}
	was := shipped(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := usePolicy(ctx, was); err != nil {
			t.Error(err)
		}
	})
}

func usePolicy(ctx context.Context, policy string) error {
	if policy == policyInForce {
		return nil // nothing would be logged
	}
	var before []int
	for _, replica := range usher.Replicas {
		before = append(before, loads(replica))
	}
	if err := usher.SetPolicy(policy); err != nil {
		return err
	}
	err := kubetest.Eventually(ctx, func(context.Context) error {
		for i, replica := range usher.Replicas {
			if loads(replica) == before[i] {
				return fmt.Errorf("%s does not take up the policy", replica.Name)
			}
		}
		return nil
	})
	if err == nil {
		policyInForce = policy
	}
	return err
}

// loads returns how often a replica has loaded a policy.
func loads(replica *kubetest.Replica) int {
	return strings.Count(replica.Process().Log(), `"msg":"policy in force"`)
}
