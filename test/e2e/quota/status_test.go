package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// statusOf returns the status of a quota as JSON.
func statusOf(ctx context.Context, t *testing.T, namespace, name string) string {
	t.Helper()
	object, err := cluster.Admin().Get(ctx, quotaPath(namespace, name))
	stored(t, err)
	text, err := json.Marshal(object["status"])
	stored(t, err)
	return string(text)
}

// shows waits until the status of a quota is as wanted.
func shows(ctx context.Context, t *testing.T, namespace, name, want string) {
	t.Helper()
	eventually(ctx, t, func(ctx context.Context) error {
		if got := statusOf(ctx, t, namespace, name); got != want {
			return fmt.Errorf("%s: %s, want %s", name, got, want)
		}
		return nil
	})
}

// TestStatus: tenants see in kubectl what their quota uses and what binds. Of the replicas one writes, at most once in ten
// seconds, and nothing if nothing has changed.
func TestStatus(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	a, b := departments(ctx, t, "status", "5", "3", "4")
	shows(ctx, t, "status", a, `{"binds":{"cpu":"status-a"},"limit":{"cpu":"3"},"reserved":{},"used":{"cpu":"0"}}`)
	for i := range 4 {
		stored(t, createPod(ctx, "status", fmt.Sprint("b-", i), b, "750m"))
		time.Sleep(time.Second)
	}
	shows(ctx, t, "status", b, `{"binds":{"cpu":"status-b"},"limit":{"cpu":"4"},"reserved":{},"used":{"cpu":"3"}}`)
	shows(ctx, t, "status", a, `{"binds":{"cpu":"status-all"},"limit":{"cpu":"3"},"reserved":{},"used":{"cpu":"0"}}`)
	shows(ctx, t, "status", "status-all", `{"binds":{"cpu":"status-all"},"limit":{"cpu":"5"},"reserved":{},"used":{"cpu":"3"}}`)
	table, err := cluster.Kubectl(ctx, "get", "elasticquotas", "-n", "status", a)
	stored(t, err)
	for _, want := range []string{"USED", "RESERVED", "LIMIT", "BINDS", `{"cpu":"3"}`, `{"cpu":"status-all"}`} {
		if !strings.Contains(table, want) {
			t.Errorf("no %s:\n%s", want, table)
		}
	}
	before, err := cluster.Admin().Get(ctx, quotaPath("status", b))
	stored(t, err)
	time.Sleep(20 * time.Second)
	after, err := cluster.Admin().Get(ctx, quotaPath("status", b))
	stored(t, err)
	if was, is := before["metadata"].(map[string]any)["resourceVersion"], after["metadata"].(map[string]any)["resourceVersion"]; was != is {
		t.Errorf("written although nothing has changed: %v, %v", was, is)
	}
	checkPace(t, b)
}

// checkPace checks that the status of a quota was written at most once in ten seconds, by all replicas.
func checkPace(t *testing.T, name string) {
	t.Helper()
	writes, err := cluster.Audit(func(e kubetest.AuditEvent) bool {
		return kubetest.Of("patch", "elasticquotas/status", name)(e) && e.ResponseStatus.Code == 200 && e.User.Username == usherUser
	})
	stored(t, err)
	if len(writes) < 2 {
		t.Errorf("%d writes of %s", len(writes), name)
	}
	for i := 1; i < len(writes); i++ {
		if pause := writes[i].RequestReceivedTimestamp.Sub(writes[i-1].RequestReceivedTimestamp); pause < 10*time.Second {
			t.Errorf("%s was written again after %s", name, pause)
		}
	}
}

// TestStatusOfScheduler: what Koordinator's scheduler writes is left alone, until the commands of docs/quota.md say that it is gone.
func TestStatusOfScheduler(t *testing.T) {
	ctx := cluster.Within(t, 4*time.Minute)
	a, _ := departments(ctx, t, "scheduled", "5", "3", "4")
	shows(ctx, t, "scheduled", a, `{"binds":{"cpu":"scheduled-a"},"limit":{"cpu":"3"},"reserved":{},"used":{"cpu":"0"}}`)
	scheduler := func(path, body string) {
		_, err := cluster.Admin().Patch(ctx, path+"?fieldManager=koord-scheduler", kubetest.MergePatch, body)
		stored(t, err)
	}
	scheduler(quotaPath("scheduled", a), `{"metadata": {"annotations": {"`+prefix+`runtime": "{\"cpu\":\"3\"}", "`+prefix+`request": "{}"}}}`)
	scheduler(quotaPath("scheduled", a)+"/status", `{"status": {"used": {"cpu": "2500m"}}}`)
	stored(t, createPod(ctx, "scheduled", "p", a, "1"))
	shows(ctx, t, "scheduled", "scheduled-all", `{"binds":{"cpu":"scheduled-all"},"limit":{"cpu":"5"},"reserved":{},"used":{"cpu":"1"}}`)
	time.Sleep(15 * time.Second)
	shows(ctx, t, "scheduled", a, `{"binds":{"cpu":"scheduled-a"},"limit":{"cpu":"3"},"reserved":{},"used":{"cpu":"2500m"}}`)
	withheld := false
	for _, r := range usher.Replicas {
		_, metrics, err := r.Get(ctx, "/metrics")
		stored(t, err)
		withheld = withheld || strings.Contains(metrics, "\nusher_quota_status_withheld{reason=\"writer\"} 1\n")
	}
	if !withheld {
		t.Error("no replica says that another writer has a quota")
	}
	page, err := kubetest.Repository()
	stored(t, err)
	text, err := os.ReadFile(filepath.Join(page, "docs", "quota.md"))
	stored(t, err)
	_, section, _ := strings.Cut(string(text), "Once that scheduler is gone:\n\n")
	commands, _, _ := strings.Cut(section, "\n\n")
	for line := range strings.Lines(commands + "\n") {
		line = strings.NewReplacer("NAMESPACE", "scheduled", "NAME", a).Replace(strings.TrimSpace(line))
		command, patch, _ := strings.Cut(line, " -p ")
		args := strings.Fields(command)[1:]
		if patch != "" {
			args = append(args, "-p", strings.Trim(patch, "'"))
		}
		_, err := cluster.Kubectl(ctx, args...)
		stored(t, err)
	}
	shows(ctx, t, "scheduled", a, `{"binds":{"cpu":"scheduled-a"},"limit":{"cpu":"3"},"reserved":{},"used":{"cpu":"1"}}`)
}

// TestQuotaCommand: a tenant who may only list the quotas of his namespace sees what is left, and what a manifest would take.
func TestQuotaCommand(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	grow(ctx, t, "command", newQuota("command", "command-all", "", "5", true))
	grow(ctx, t, "command-tenant", newQuota("command-tenant", "command-tenant", "command-all", "4", false))
	cluster.MustApply(ctx, t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: command-tenant, name: quotas}
rules: [{apiGroups: [scheduling.sigs.k8s.io], resources: [elasticquotas], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: command-tenant, name: quotas}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: quotas}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`)
	config, err := cluster.Kubeconfig("reader")
	stored(t, err)
	stored(t, createPod(ctx, "command-tenant", "p", "", "1"))
	shows(ctx, t, "command-tenant", "command-tenant", `{"binds":{"cpu":"command-tenant"},"limit":{"cpu":"4"},"reserved":{},"used":{"cpu":"1"}}`)
	ask := func(namespace, replicas string) string {
		manifest := filepath.Join(t.TempDir(), "web.yaml")
		text := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: ` + namespace + `}, spec: {replicas: ` + replicas +
			`, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Mi}}}]}}}}`
		stored(t, os.WriteFile(manifest, []byte(text), 0o600))
		out, err := cluster.Usherctl(ctx, "review", "--cluster=api", "--kubeconfig", config, manifest)
		if err == nil {
			t.Errorf("not judged counts in the exit code:\n%s", out)
		}
		return out
	}
	for replicas, fits := range map[string]string{"3": "yes", "4": "no"} {
		want := "would take cpu " + replicas + ", 3 is left: fits: " + fits + ": command-tenant (spec.max)"
		if out := ask("command-tenant", replicas); !strings.Contains(out, want) {
			t.Errorf("%s replicas: %q is not in\n%s", replicas, want, out)
		}
	}
	err = createPod(ctx, "command-tenant", "large", "", "4")
	kubetest.RefusedWith(t, err, "`kubectl get elasticquotas -n command-tenant` shows use and limits")
	if out := ask("command", "1"); !strings.Contains(out, "quota-not-known") {
		t.Errorf("another namespace:\n%s", out)
	}
}
