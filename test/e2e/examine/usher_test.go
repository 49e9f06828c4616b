package examine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const registrations = "/apis/admissionregistration.k8s.io/v1/"

// TestUsher: what is wrong with usher's own registration and rights is found.
func TestUsher(t *testing.T) {
	for _, f := range []struct {
		name, want string
		change     func(ctx context.Context, t *testing.T)
		says       []string
	}{
		{"a route is not registered", "usher-not-registered", func(ctx context.Context, t *testing.T) {
			edit(ctx, t, "validating", func(all []any) []any {
				return slices.DeleteFunc(all, func(w any) bool {
					return kubetest.Object(w.(map[string]any)).String("name") == "validate-pods.usher.dev"
				})
			})
		}, []string{"validate-pods.usher.dev", "usher webhooks apply --service usher/usher"}},
		{"a path that usher does not serve", "usher-path-unknown", func(ctx context.Context, t *testing.T) {
			edit(ctx, t, "validating", func(all []any) []any {
				kubetest.Object(all[0].(map[string]any)).At("clientConfig", "service").(map[string]any)["path"] = "/validate-pod-names"
				return all
			})
		}, []string{"/validate-pod-names"}},
		{"rules that the policy needs otherwise", "usher-registration-differs", func(ctx context.Context, t *testing.T) {
			edit(ctx, t, "mutating", func(all []any) []any {
				all[0].(map[string]any)["rules"].([]any)[0].(map[string]any)["operations"] = []string{"UPDATE"}
				return all
			})
		}, []string{"needed CREATE"}},
		{"two amplifiers of usher", "two-amplifiers", func(ctx context.Context, t *testing.T) {
			edit(ctx, t, "mutating", func(all []any) []any {
				for _, w := range all {
					if w := kubetest.Object(w.(map[string]any)); w.String("name") == "mutate-nodes.usher.dev" {
						second := map[string]any{}
						for key, value := range w {
							second[key] = value
						}
						second["name"] = "mutate-node-status.usher.dev"
						return append(all, second)
					}
				}
				return all
			})
		}, []string{"mutate-node-status.usher.dev"}},
		{"rights are missing", "usher-rights-missing", func(ctx context.Context, t *testing.T) {
			const path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
			binding, err := cluster.Admin().Get(ctx, path+"/usher")
			apply(t, err)
			_, err = cluster.Admin().Delete(ctx, path+"/usher")
			apply(t, err)
			t.Cleanup(func() {
				delete(binding["metadata"].(map[string]any), "resourceVersion")
				delete(binding["metadata"].(map[string]any), "uid")
				apply(t, created(context.WithoutCancel(ctx), path, binding))
			})
		}, []string{"system:serviceaccount:usher:usher may not", "get, list, watch namespaces", "usher webhooks --rbac"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			ctx := cluster.Within(t, time.Minute)
			f.change(ctx, t)
			found, code := doctor(ctx, t, cluster.AdminKubeconfig())
			expect(t, found, code, f.want, f.says)
		})
	}
}

// edit changes the webhooks of a configuration of usher until the test has ended.
func edit(ctx context.Context, t *testing.T, kind string, change func([]any) []any) {
	t.Helper()
	path := registrations + kind + "webhookconfigurations/usher"
	before, err := cluster.Admin().Get(ctx, path)
	apply(t, err)
	after, err := cluster.Admin().Get(ctx, path)
	apply(t, err)
	after["webhooks"] = change(after["webhooks"].([]any))
	_, err = cluster.Admin().Update(ctx, path, after)
	apply(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		now, err := cluster.Admin().Get(ctx, path)
		apply(t, err)
		now["webhooks"] = before["webhooks"]
		_, err = cluster.Admin().Update(ctx, path, now)
		apply(t, err)
	})
}

// TestRights: with the ClusterRole of docs/doctor.md nothing is unknown; without a right, what depends on it is, and the
// exit code says so.
func TestRights(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	page, err := kubetest.ReadFile("docs/doctor.md")
	apply(t, err)
	_, after, _ := strings.Cut(page, "## Rights\n")
	_, after, _ = strings.Cut(after, "```yaml\n")
	manifest, _, _ := strings.Cut(after, "```")
	cluster.MustApply(ctx, t, manifest)
	config, err := cluster.ServiceAccountKubeconfig(ctx, "usher", "doctor")
	apply(t, err)
	if found, code := doctor(ctx, t, config); len(found) > 0 || code != 0 {
		t.Errorf("exit code %d: %+v", code, found)
	}
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/usher-doctor"
	whole, err := cluster.Admin().Get(ctx, role)
	apply(t, err)
	for i, rule := range whole.List("rules") {
		resource := rule.At("resources", 0).(string)
		if resource == "certificates" || resource == "secrets" || resource == "customresourcedefinitions" { // not needed here: the pods are reached
			continue
		}
		t.Run(resource, func(t *testing.T) {
			less := kubetest.Object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": kubetest.Object{"name": "usher-doctor"}}
			less["rules"] = slices.Delete(slices.Clone(whole.List("rules")), i, i+1)
			_, err := cluster.Admin().Update(ctx, role, less)
			apply(t, err)
			found, code := doctor(ctx, t, config)
			if code != 2 || len(found) == 0 {
				t.Fatalf("exit code %d: %+v", code, found)
			}
			named := false
			for _, f := range found {
				named = named || strings.Contains(f.Message, resource)
				if f.Severity != "unknown" || f.ID != "not-readable" {
					t.Errorf("%+v", f)
				}
			}
			if !named {
				t.Errorf("%s is not named: %+v", resource, found)
			}
		})
	}
}
