package examine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const registrations = "/apis/admissionregistration.k8s.io/v1/"

// usherFault is a fault of usher's own registration, policy or rights.
type usherFault struct {
	name, want string
	change     func(ctx context.Context, t *testing.T)
	says       []string
}

// entry changes the entry of a name in a configuration of usher; nil removes it.
func entry(kind, name string, change func(w kubetest.Object)) func(context.Context, *testing.T) {
	return func(ctx context.Context, t *testing.T) {
		edit(ctx, t, kind, func(all []any) []any {
			return slices.DeleteFunc(all, func(w any) bool {
				if kubetest.Object(w.(map[string]any)).String("name") != name {
					return false
				}
				if change != nil {
					change(w.(map[string]any))
				}
				return change == nil
			})
		})
	}
}

func path(to string) func(kubetest.Object) {
	return func(w kubetest.Object) { w.At("clientConfig", "service").(map[string]any)["path"] = to }
}

// bundle changes the caBundle of an entry.
func bundle(change func(is []byte) []byte) func(context.Context, *testing.T) {
	return entry("validating", "validate-pods.usher.dev", func(w kubetest.Object) {
		is, err := base64.StdEncoding.DecodeString(w.String("clientConfig", "caBundle"))
		must(err)
		w.At("clientConfig").(map[string]any)["caBundle"] = change(is)
	})
}

// relabel gives a namespace a label until the test has ended.
func relabel(ctx context.Context, t *testing.T, namespace, value, after string) {
	set := func(ctx context.Context, value string) {
		_, err := cluster.Kubectl(ctx, "label", "--overwrite", "namespace", namespace, "admission-webhook"+value)
		apply(t, err)
	}
	set(ctx, value)
	t.Cleanup(func() { set(context.WithoutCancel(ctx), after) })
}

// ushersFaults are the faults of usher's own registration, policy and rights.
func ushersFaults() []usherFault {
	return []usherFault{
		{"a route is not registered", "usher-not-registered", entry("validating", "validate-pods.usher.dev", nil),
			[]string{"validate-pods.usher.dev", "usher webhooks apply --as-installed --service usher/usher"}},
		{"a path that usher does not serve", "usher-path-unknown", entry("validating", "validate-pods.usher.dev", path("/validate-pod-names")), []string{"/validate-pod-names"}},
		{"a path of another webhook", "usher-path-differs", entry("validating", "validate-pods.usher.dev", path("/mutate-pods")), []string{"/mutate-pods"}},
		{"rules that the policy needs otherwise", "usher-registration-differs", entry("mutating", "mutate-pods.usher.dev", func(w kubetest.Object) {
			w["rules"].([]any)[0].(map[string]any)["operations"] = []string{"UPDATE"}
		}), []string{"needed CREATE"}},
		{"a constant condition", "match-condition-never", entry("validating", "validate-pods.usher.dev", func(w kubetest.Object) {
			conditions, _ := w["matchConditions"].([]any)
			w["matchConditions"] = append(conditions, map[string]any{"name": "off", "expression": "false"})
		}), []string{"(off)"}},
		{"a condition that has no result", "match-condition-fails", entry("validating", "validate-pods.usher.dev", func(w kubetest.Object) {
			conditions, _ := w["matchConditions"].([]any)
			w["matchConditions"] = append(conditions, map[string]any{"name": "typo", "expression": "object.spec.nope == 'x'"})
		}), []string{"spec.nope"}},
		{"pods with a label alone", "usher-leaves-out", entry("validating", "validate-pods.usher.dev", func(w kubetest.Object) {
			w["objectSelector"] = kubetest.Object{"matchLabels": kubetest.Object{"usher": "on"}}
		}), []string{"usher in (on)"}},
		{"a condition that leaves out administrators", "usher-leaves-out", entry("validating", "validate-pods.usher.dev", func(w kubetest.Object) {
			conditions, _ := w["matchConditions"].([]any)
			w["matchConditions"] = append(conditions, map[string]any{"name": "rescue", "expression": "!('system:masters' in request.userInfo.groups)"})
		}), []string{"It leaves out the group system:masters"}},
		{"no caBundle", "ca-bundle-missing", bundle(func([]byte) []byte { return nil }), nil},
		{"a caBundle that is none", "ca-bundle-invalid", bundle(func([]byte) []byte { return []byte("my-ca") }), nil},
		{"a key in the caBundle", "ca-bundle-private-key", bundle(func(is []byte) []byte { return slices.Concat(is, healthy.key) }), nil},
		{"the caBundle of another", "ca-bundle-mismatch", bundle(func([]byte) []byte { return healthy.ca }), nil},
		{"an old CA in the caBundle", "ca-bundle-stale", bundle(func(is []byte) []byte { return slices.Concat(is, healthy.expired()) }), nil},
		{"two amplifiers of usher", "two-amplifiers", func(ctx context.Context, t *testing.T) {
			edit(ctx, t, "mutating", func(all []any) []any {
				for _, w := range all {
					if w := kubetest.Object(w.(map[string]any)); w.String("name") == "mutate-nodes.usher.dev" {
						second := maps.Clone(map[string]any(w))
						second["name"], second["clientConfig"] = "mutate-node-status.usher.dev", atPath(w, "/mutate-node-status")
						return append(all, second)
					}
				}
				return all
			})
		}, []string{"mutate-node-status.usher.dev"}},
		{"a misspelt label", "selector-no-namespace", func(ctx context.Context, t *testing.T) { relabel(ctx, t, "apps", "=enable", "=enabled") },
			[]string{"namespaces apps have admission-webhook=enable"}},
		{"a misspelt label beside a right one", "selector-near-miss", func(ctx context.Context, t *testing.T) {
			cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps-two"}}`)
			relabel(ctx, t, "apps-two", "=enable", "-")
		}, []string{"namespaces apps-two have admission-webhook=enable"}},
		{"no policy", "usher-policy-unusable", func(ctx context.Context, t *testing.T) {
			const at = "/api/v1/namespaces/usher/configmaps"
			policy, err := cluster.Admin().Get(ctx, at+"/usher-policy")
			apply(t, err)
			replace(ctx, t, at, policy)
		}, []string{"get configmaps"}},
		{"a policy that usher has not read", "usher-steps-differ", func(ctx context.Context, t *testing.T) {
			const at = "/api/v1/namespaces/usher/configmaps"
			policy, err := cluster.Admin().Get(ctx, at+"/usher-policy")
			apply(t, err)
			other, err := cluster.Admin().Get(ctx, at+"/usher-policy")
			apply(t, err)
			replace(ctx, t, at, policy)
			other["data"].(map[string]any)["policy.yaml"] = strings.Replace(policy.String("data", "policy.yaml"), "denied-names: enforce", "denied-names: warn", 1)
			delete(other["metadata"].(map[string]any), "resourceVersion")
			apply(t, created(ctx, at, other))
		}, []string{"usher-1 runs denied-names of /validate-pods in mode enforce instead of warn"}},
		{"no Deployment", "usher-not-deployed", func(ctx context.Context, t *testing.T) {
			const at = "/apis/apps/v1/namespaces/usher/deployments"
			deployment, err := cluster.Admin().Get(ctx, at+"/usher")
			apply(t, err)
			replace(ctx, t, at, deployment)
		}, []string{"no Deployment usher/usher"}},
		{"one replica", "usher-replicas", patched(`{"spec": {"replicas": 1}}`), []string{"one replica", "--replicas=2"}},
		{"a pod that Pod Security forbids", "usher-pods-refused", patched(`{"spec": {"template": {"spec": {"hostPID": true}}}}`), []string{`violates PodSecurity "restricted`}},
		{"no such ServiceAccount", "usher-pods-refused", patched(`{"spec": {"template": {"spec": {"serviceAccountName": "ushr"}}}}`), []string{`serviceaccount "ushr" not found`}},
		{"no such PriorityClass", "usher-pods-refused", patched(`{"spec": {"template": {"spec": {"priorityClassName": "first"}}}}`), []string{"no PriorityClass with name first"}},
		{"a quota without room", "usher-pods-refused", beside(`{"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "2"}}}`), []string{"exceeded quota: planted"}},
		{"a LimitRange below", "usher-pods-refused", beside(`{"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]}}`),
			[]string{"maximum memory usage per Container is 1Mi"}},
		{"a budget of all replicas", "usher-disruption-budget", beside(`{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
			"spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app.kubernetes.io/name": "usher"}}}}`), []string{"usher/planted"}},
		{"rights are missing", "usher-rights-missing", func(ctx context.Context, t *testing.T) {
			const at = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
			binding, err := cluster.Admin().Get(ctx, at+"/usher")
			apply(t, err)
			replace(ctx, t, at, binding)
		}, []string{"system:serviceaccount:usher:usher may not", "get, list, watch namespaces", "usher webhooks --rbac"}},
	}
}

// patched changes usher's Deployment until the test has ended.
func patched(change string) func(context.Context, *testing.T) {
	return func(ctx context.Context, t *testing.T) {
		const at = "/apis/apps/v1/namespaces/usher/deployments"
		before, err := cluster.Admin().Get(ctx, at+"/usher")
		apply(t, err)
		_, err = cluster.Kubectl(ctx, "-n", "usher", "patch", "deployment", "usher", "--type=merge", "-p", change)
		apply(t, err)
		t.Cleanup(func() {
			ctx := context.WithoutCancel(ctx)
			now, err := cluster.Admin().Get(ctx, at+"/usher")
			apply(t, err)
			now["spec"] = before["spec"]
			_, err = cluster.Admin().Update(ctx, at+"/usher", now)
			apply(t, err)
		})
	}
}

// beside applies an object named planted in usher's namespace until the test has ended.
func beside(manifest string) func(context.Context, *testing.T) {
	return func(ctx context.Context, t *testing.T) {
		var o kubetest.Object
		apply(t, json.Unmarshal([]byte(manifest), &o))
		o["metadata"] = kubetest.Object{"name": "planted", "namespace": "usher"}
		cluster.MustApply(ctx, t, encode(o))
		t.Cleanup(func() {
			_, err := cluster.Kubectl(context.WithoutCancel(ctx), "-n", "usher", "delete", o.String("kind"), "planted")
			apply(t, err)
		})
	}
}

// replace deletes an object, and creates it again when the test has ended.
func replace(ctx context.Context, t *testing.T, collection string, o kubetest.Object) {
	name := o.String("metadata", "name")
	_, err := cluster.Admin().Delete(ctx, collection+"/"+name)
	apply(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		_, _ = cluster.Admin().Delete(ctx, collection+"/"+name)
		delete(o["metadata"].(map[string]any), "resourceVersion")
		delete(o["metadata"].(map[string]any), "uid")
		apply(t, created(ctx, collection, o))
	})
}

// TestUsher: what is wrong with usher's own registration, policy and rights is found, and the command that is printed makes
// the registration what it was.
func TestUsher(t *testing.T) {
	for _, f := range ushersFaults() {
		t.Run(f.name, func(t *testing.T) {
			ctx := cluster.Within(t, time.Minute)
			before := state(ctx, t)
			var found []finding
			var code int
			for range 3 { // usher corrects its caBundle by itself, within ten seconds
				f.change(ctx, t)
				if found, code = doctor(ctx, t, cluster.AdminKubeconfig()); len(found) > 0 {
					break
				}
			}
			if f.want == "ca-bundle-stale" {
				code = max(code, 1)
			}
			if f.want == "usher-policy-unusable" && code == 2 {
				code = 1 // what usher should be registered for is unknown without it
			}
			expect(t, found, code, f.want, f.says)
			correct(ctx, t, found)
			if found[0].Fix == "" {
				return // a person corrects it
			}
			for _, path := range differing(before, state(ctx, t)) {
				t.Errorf("%s is not what it was", path)
			}
		})
	}
}

// TestNarrowed: what others have added to usher's registration stays with usher webhooks apply --as-installed, which says so and names
// the command that shows how to undo it.
func TestNarrowed(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(w kubetest.Object)
		says string
	}{
		{"objects", func(w kubetest.Object) {
			w["objectSelector"] = kubetest.Object{"matchLabels": kubetest.Object{"usher": "on"}}
		}, "objectSelector usher in (on)"},
		{"namespaces", func(w kubetest.Object) {
			w["namespaceSelector"].(map[string]any)["matchLabels"] = map[string]any{"admission-webhook": "enabled", "team": "none"}
		}, "namespaceSelector team in (none)"},
		{"users", func(w kubetest.Object) {
			conditions, _ := w["matchConditions"].([]any)
			w["matchConditions"] = append(conditions, map[string]any{"name": "rescue", "expression": "!('system:masters' in request.userInfo.groups)"})
		}, "matchConditions rescue: !('system:masters' in request.userInfo.groups)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := cluster.Within(t, time.Minute)
			entry("validating", "validate-pods.usher.dev", c.add)(ctx, t)
			before := state(ctx, t)
			out, err := cluster.RunProgram(ctx, binary, "webhooks", "apply", "--as-installed", "--yes", "--service=usher/usher", "--kubeconfig="+cluster.AdminKubeconfig())
			apply(t, err)
			for _, text := range []string{"apart from what others have added", "validate-pods.usher.dev: stays", "leaves out more than usher does: " + c.says, "usherctl doctor --service usher/usher"} {
				if !strings.Contains(out, text) {
					t.Errorf("it does not say %q: %s", text, out)
				}
			}
			if !maps.Equal(before, state(ctx, t)) {
				t.Error("the registration was changed")
			}
			found, code := doctor(ctx, t, cluster.AdminKubeconfig())
			if code != 1 || len(found) == 0 || !strings.Contains(found[0].Message, c.says) && found[0].ID != "selector-no-namespace" {
				t.Errorf("exit code %d: %+v", code, found)
			}
		})
	}
}

// TestEveryCommand: after the tests above, the command of each kind of findings has ended one, or there is a reason why not.
func TestEveryCommand(t *testing.T) {
	if len(ran) == 0 {
		t.Skip("it is about TestPlanted and TestUsher, which were not run")
	}
	ctx := cluster.Within(t, time.Minute)
	out, err := cluster.RunProgram(ctx, usherctl, "doctor", "--list")
	apply(t, err)
	for line := range strings.Lines(out) {
		id := strings.Fields(line)[0]
		if slices.ContainsFunc(faults(), func(f planted) bool { return f.want == id && f.before > 0 && minorVersion(ctx, t) >= f.before }) {
			continue // TestPlanted has seen that it is never sent
		}
		if reason := without[id]; ran[id] == (reason != "") {
			t.Errorf("%s: its command was run: %t, a reason why not: %q", id, ran[id], reason)
		}
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

// TestRights: with the ClusterRole of deploy/doctor.yaml nothing is unknown; without a right, what depends on it is, and the
// exit code says so.
func TestRights(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	manifest, err := kubetest.ReadFile("deploy/doctor.yaml")
	apply(t, err)
	cluster.MustApply(ctx, t, manifest)
	config, err := cluster.ServiceAccountKubeconfig(ctx, "usher", "doctor")
	apply(t, err)
	if found, code := doctor(ctx, t, config); len(found) > 0 || code != 0 {
		t.Errorf("exit code %d: %+v", code, found)
	}
	t.Run("pods/proxy", func(t *testing.T) {
		const bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/usher/rolebindings"
		binding, err := cluster.Admin().Get(ctx, bindings+"/usher-doctor")
		apply(t, err)
		replace(ctx, t, bindings, binding)
		found, code := doctor(ctx, t, config)
		if code != 2 || len(found) != 1 || !strings.HasPrefix(found[0].Message, "pods/proxy in namespace usher may not be read") {
			t.Errorf("exit code %d: %+v", code, found)
		}
	})
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/usher-doctor"
	whole, err := cluster.Admin().Get(ctx, role)
	apply(t, err)
	for i, rule := range whole.List("rules") {
		resource := rule.At("resources", 0).(string)
		// Not needed here: the pods are reached, and no selector asks for their labels.
		if slices.Contains([]string{"certificates", "secrets", "customresourcedefinitions", "statefulsets"}, resource) {
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

// atPath returns the client configuration of a webhook with another path of the same Service.
func atPath(w kubetest.Object, path string) kubetest.Object {
	service := kubetest.Object{}
	for key, value := range w.At("clientConfig", "service").(map[string]any) {
		service[key] = value
	}
	service["path"] = path
	return kubetest.Object{"caBundle": w.String("clientConfig", "caBundle"), "service": service}
}
