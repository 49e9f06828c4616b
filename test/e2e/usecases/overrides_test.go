package usecases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestOverrides runs the walk-through of docs/exceptions.md: a namespace that is excepted by its name, one by its labels
// for the pods of a group, and a rollout for half of the workloads.
func TestOverrides(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	namespace(ctx, t, "apps", nil, nil)
	namespace(ctx, t, "tested", kubetest.Object{"team": "web"}, nil)
	namespace(ctx, t, "figures", kubetest.Object{"team": "analytics"}, nil)
	namespace(ctx, t, "others", nil, nil)
	use(ctx, t, "samples/policies/overrides.yaml")
	pod := func(name string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "labels": {"purpose": "security-test"}},
			"spec": {"containers": [{"name": "a", "image": "example.com/a:1"}]}}`, name)
	}
	in := func(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }
	awaitRefusal(ctx, t, in("others"), pod("offensive"))

	answer, err := cluster.Admin().Do(ctx, "POST", in("apps")+"?dryRun=All", "application/json", pod("offensive"))
	if err != nil || answer.Err() != nil {
		t.Fatalf("%v, %v", err, answer.Err())
	}
	checkOverrideAudited(t, "offensive", "old-names")

	// The label alone excepts no pod. For a member of the group it does.
	kubetest.RefusedWith(t, create(ctx, in("tested")+"?dryRun=All", pod("offensive")), "denied-names")
	security := cluster.Admin().Impersonate("tester", "security", "system:masters")
	if _, err := security.Create(ctx, in("tested")+"?dryRun=All", pod("offensive")); err != nil {
		t.Errorf("a member of the group: %v", err)
	}
	if _, err := security.Create(ctx, in("others")+"?dryRun=All", pod("offensive")); err == nil {
		t.Error("a member of the group in another namespace")
	}

	// The draw of a workload is the same on every replica: offensive-b draws 86, offensive-d 8 (see the samples).
	refused := 0
	for i := range 40 {
		name, times := fmt.Sprint("offensive-", i), 0
		for range 3 {
			if err := create(ctx, in("figures")+"?dryRun=All", pod(name)); err != nil {
				kubetest.RefusedWith(t, err, "denied-names")
				times++
			}
		}
		if times != 0 && times != 3 {
			t.Errorf("%s was refused %d times of 3", name, times)
		}
		refused += times / 3
	}
	if refused < 8 || refused > 32 {
		t.Errorf("of 40 workloads %d were refused, want about half", refused)
	}
}

// checkOverrideAudited checks that the audit log has the override of a request that created a pod.
func checkOverrideAudited(t *testing.T, pod, override string) {
	t.Helper()
	events, err := cluster.Audit(kubetest.Of("create", "pods", pod))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for key, value := range e.Annotations {
			if strings.HasSuffix(key, "/override.denied-names") && value == override {
				return
			}
		}
	}
	t.Errorf("none of %d audit events has override %s: %+v", len(events), override, events)
}
