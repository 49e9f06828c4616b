package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestRefused: Deployments whose pods are refused are explained by their FailedCreate events, and what would happen now.
func TestRefused(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "refused", "labels": {"admission-webhook": "enabled"}}}`)
	awaitAccount(ctx, t, "refused")
	cluster.MustApply(ctx, t, quotaObject("small", "1"))
	kubeconfig := reader(ctx, t)
	for _, c := range []struct {
		name, labels, cpu string
		args              []string
		want              []string // in this order
		change            func()   // after which the pod would be allowed
	}{
		{"offensive-web", "", "1", []string{"deployment/offensive-web"}, []string{
			"denied  Deployment refused/offensive-web, its pods", "of ReplicaSet offensive-web-", "/validate-pods  denied, 403 Forbidden", "denied-names           refused",
			"refuses pods whose name contains", "policy: ConfigMap usher/usher-policy", "section names", "the way out: choose another name",
			"denied  ReplicaSet offensive-web-", "as of now", "/validate-pods  denied, 403 Forbidden"}, nil},
		{"over-quota", `"quota.scheduling.koordinator.sh/name": "small"`, "2", []string{"pod", "over-quota"}, []string{
			"/validate-pod  denied", "evaluate-quota         refused", "small", "as of now", "evaluate-quota         refused", "quota small"},
			func() { cluster.MustApply(ctx, t, quotaObject("small", "10")) }},
		{"no-profile", `"koordinator.sh/qosClass": "BE", "batch": "true"`, "1", []string{"rs", "no-profile"}, []string{
			"/validate-pod  denied", "qos-priority           refused", "as of now", "colocation-profile     nothing to do", "no colocation profile matches", "qos-priority           refused"},
			func() {
				cluster.MustApply(ctx, t, `{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "koord-batch"}, "value": 5000}`)
				cluster.MustApply(ctx, t, `{"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile", "metadata": {"name": "batch"},
					"spec": {"selector": {"matchLabels": {"batch": "true"}}, "labels": {"koordinator.sh/qosClass": "BE"}, "priorityClassName": "koord-batch"}}`)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := cluster.Admin().Create(ctx, "/apis/apps/v1/namespaces/refused/deployments", deployment(c.name, c.labels, c.cpu))
			must(t, err)
			args := []string{"--cluster=api", "--kubeconfig=" + kubeconfig, "-n", "refused", "--feature-gates=" + gates}
			var out string
			code := 0
			must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
				out, code = explain(ctx, t, append(args, "deployment/"+c.name)...)
				if code != 1 {
					return fmt.Errorf("exit code %d\n%s", code, out)
				}
				return nil
			}))
			follows(t, out, c.want)
			if strings.Contains(out, "s3cret") {
				t.Errorf("shows a value\n%s", out)
			}
			if c.change == nil {
				return
			}
			c.change()
			must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
				if out, _ = explain(ctx, t, append(args, "deployment/"+c.name)...); !strings.Contains(out, "as of now the pod is allowed") && !strings.Contains(out, "no admission refused it") {
					return fmt.Errorf("%s", out)
				}
				return nil
			}))
		})
	}
}

// TestRefusedByOthers: what a ResourceQuota refuses, it refuses as of now, too.
func TestRefusedByOthers(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full", "labels": {"admission-webhook": "enabled"}}}`)
	awaitAccount(ctx, t, "full")
	_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/full/resourcequotas", `{"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "0"}}}`)
	must(t, err)
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error { // before its controller has seen it, a quota refuses nothing
		quota, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/full/resourcequotas/tight")
		if err == nil && quota.String("status", "hard", "pods") == "" {
			err = errors.New("the quota has no status")
		}
		return err
	}))
	_, err = cluster.Admin().Create(ctx, "/apis/apps/v1/namespaces/full/deployments", deployment("no-room", "", "1"))
	must(t, err)
	kubeconfig := reader(ctx, t)
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		out, code := explain(ctx, t, "--cluster=api", "--kubeconfig="+kubeconfig, "-n", "full", "--feature-gates="+gates, "deployment/no-room")
		for _, part := range []string{"denied  Deployment full/no-room, its pods", "not-usher: ResourceQuota tight", "invalid  ReplicaSet no-room-", "as of now", "invalid: ResourceQuota: pods \"no-room-", "exceeded quota: tight"} {
			if code != 1 || !strings.Contains(out, part) {
				return fmt.Errorf("exit code %d, lacks %s\n%s", code, part, out)
			}
		}
		return nil
	}))
}

// TestRefusedByLimitRange: what the LimitRanges of the cluster refuse is said of the pod as of now.
func TestRefusedByLimitRange(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bounded", "labels": {"admission-webhook": "enabled"}}}`)
	awaitAccount(ctx, t, "bounded")
	_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/bounded/limitranges", `{"metadata": {"name": "tight"}, "spec": {"limits": [
		{"type": "Container", "default": {"memory": "1Gi"}}, {"type": "Pod", "max": {"cpu": "500m"}}]}}`)
	must(t, err)
	_, err = cluster.Admin().Create(ctx, "/apis/apps/v1/namespaces/bounded/deployments", deployment("no-room", "", "1"))
	must(t, err)
	kubeconfig, out := reader(ctx, t), ""
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		code := 0
		if out, code = explain(ctx, t, "--cluster=api", "--kubeconfig="+kubeconfig, "-n", "bounded", "--feature-gates="+gates, "deployment/no-room"); code != 1 {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		return nil
	}))
	follows(t, out, []string{"denied  Deployment bounded/no-room, its pods", "maximum cpu usage per Pod is 500m", "invalid  ReplicaSet no-room-", "as of now",
		"invalid: LimitRanger: pods \"no-room-", "maximum cpu usage per Pod is 500m"})
}

// TestOnlyRegistered: what is said of now is by the routes that are registered; another one that would refuse the pod is not asked.
func TestOnlyRegistered(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "registered", "labels": {"admission-webhook": "enabled"}}}`)
	awaitAccount(ctx, t, "registered")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, register(ctx, "core,colocation"))
	})
	must(t, register(ctx, "core"))
	const refused = `"koordinator.sh/qosClass": "LSR"` // without a priority, by a route of the other suite
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/registered/pods?dryRun=All",
			`{"metadata": {"name": "lsr", "labels": {`+refused+`}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}`)
		return err
	}))
	_, err := cluster.Admin().Create(ctx, "/apis/apps/v1/namespaces/registered/deployments", deployment("offensive-lsr", refused, "1"))
	must(t, err)
	kubeconfig, out := reader(ctx, t), ""
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) (err error) {
		code := 0
		if out, code = explain(ctx, t, "--cluster=api", "--kubeconfig="+kubeconfig, "-n", "registered", "--feature-gates="+gates, "deployment/offensive-lsr"); code != 1 {
			err = fmt.Errorf("exit code %d\n%s", code, out)
		}
		return err
	}))
	follows(t, out, []string{"as of now", "/validate-pods  denied, 403 Forbidden", "denied-names           refused"})
	if strings.Contains(out, "qos-priority") {
		t.Errorf("a step of a route that is not registered is asked\n%s", out)
	}
}

// TestNotReadable: what may not be read is said, and nothing is called fine.
func TestNotReadable(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "closed", "labels": {"admission-webhook": "enabled"}}}`)
	awaitAccount(ctx, t, "closed")
	_, err := cluster.Admin().Create(ctx, "/apis/apps/v1/namespaces/closed/deployments", deployment("offensive-closed", "", "1"))
	must(t, err)
	_, err = cluster.Admin().Create(ctx, "/api/v1/namespaces/closed/pods", pod("present", 0))
	must(t, err)
	cluster.MustApply(ctx, t, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "some", "namespace": "closed"},
		"rules": [{"apiGroups": ["", "apps"], "resources": ["deployments", "replicasets", "pods"], "verbs": ["get", "list"]}]}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "some", "namespace": "closed"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "some"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "some"}]}`)
	some, err := cluster.Kubeconfig("some")
	must(t, err)
	none, err := cluster.Kubeconfig("none")
	must(t, err)
	policy := "--config=" + usher.PolicyFile()
	for _, c := range []struct {
		name, kubeconfig string
		args             []string
		code             int
		want             []string
	}{
		{"nothing", none, []string{"deployment/offensive-closed"}, 2, []string{"deployments closed/offensive-closed may not be read"}},
		{"no events, but the condition", some, []string{"offensive-closed", policy}, 2, []string{"condition of ReplicaSet offensive-closed-", "unknown: events-not-read", "denied-names           refused", "as of now", "denied-names           refused", "may not be read"}},
		{"no policy", some, []string{"deploy", "offensive-closed"}, 2, []string{"unknown: policy-not-read", "deployments usher/usher may not be read"}},
		{"a pod that exists", some, []string{"pod", "present", "--audit-log=" + cluster.AuditLog()}, 2, []string{"error  Pod closed/present", "unknown: pod-not-running", "unknown: events-not-read", "pod-exists", "CREATE Pod closed/present", "mutate-pods.usher.dev (usher)  mutated"}},
		{"no such pod", some, []string{"pod", "absent"}, 2, []string{"closed/absent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--cluster=api", "--kubeconfig=" + c.kubeconfig, "-n", "closed"}, c.args...)
			must(t, kubetest.Eventually(ctx, func(ctx context.Context) error { // RBAC is watched, and the controller takes a moment
				out, code := explain(ctx, t, args...)
				for _, part := range c.want {
					if code != c.code || !strings.Contains(out, part) {
						return fmt.Errorf("exit code %d, lacks %s\n%s", code, part, out)
					}
				}
				return nil
			}))
		})
	}
}

// reader returns the kubeconfig of a user who may only read, and checks at the end that the user tried nothing else.
func reader(ctx context.Context, t *testing.T) string {
	t.Helper()
	cluster.MustApply(ctx, t, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
		"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]}`)
	t.Cleanup(func() {
		all, err := cluster.Audit(func(e kubetest.AuditEvent) bool { return e.User.Username == "reader" })
		if err != nil || len(all) == 0 {
			t.Errorf("%v: the reader has sent %d requests", err, len(all))
		}
		for _, e := range all {
			if e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" {
				t.Errorf("usherctl explain sent %s %s", e.Verb, e.RequestURI)
			}
		}
	})
	kubeconfig, err := cluster.Kubeconfig("reader")
	must(t, err)
	return kubeconfig
}

// follows checks that texts follow one another.
func follows(t *testing.T, text string, want []string) {
	t.Helper()
	rest := text
	for _, part := range want {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("lacks, in this place: %s\n%s", part, text)
			return
		}
		rest = after
	}
}

func deployment(name, labels, cpu string) string {
	if labels != "" {
		labels = ", " + labels
	}
	return fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": %q}, "spec": {"selector": {"matchLabels": {"app": %[1]q}},
		"template": {"metadata": {"labels": {"app": %[1]q%s}, "annotations": {"note": "s3cret"}}, "spec": {"containers": [{"name": "a", "image": "a",
		"env": [{"name": "A", "value": "s3cret"}], "resources": {"requests": {"cpu": %q}}}]}}}}`, name, labels, cpu)
}

func quotaObject(name, cpu string) string {
	return fmt.Sprintf(`{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": %q, "namespace": "refused"},
		"spec": {"min": {"cpu": "0"}, "max": {"cpu": %q}}}`, name, cpu)
}

// TestPasted: the id in the text that a user of kubectl sees finds the request in the audit log.
func TestPasted(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pasted", "labels": {"admission-webhook": "enabled"}}}`)
	awaitAccount(ctx, t, "pasted")
	for name, manifest := range map[string]string{
		"offensive-pasted": `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "offensive-pasted", "namespace": "pasted"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}`,
		"long": `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "long", "namespace": "pasted", "labels": {"acme.com/lifespan-requested": "99"}},
			"spec": {"containers": [{"name": "a", "image": "a"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.KubectlInput(ctx, manifest, "create", "-f", "-")
			if err == nil {
				t.Fatal("was not refused")
			}
			all := reports(ctx, t, "--audit-log="+cluster.AuditLog(), err.Error())
			if len(all) != 2 || all[0].Verdict != "denied" || all[1].Name != name || all[1].Operation != "CREATE" {
				t.Fatalf("%s: %+v", err, all)
			}
			id := all[0].Calls[0].Refusal
			if calls := all[1].Calls; id == "" || calls[len(calls)-1].Refusal != id {
				t.Errorf("the refusal %q is not that of the request: %+v", id, calls)
			}
		})
	}
}
