package registration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// soon is the time in which a change must be reported.
const soon = 10 * time.Second

// watched is a webhook of the policy of deploy/base.
const watched = "validate-pods.usher.dev"

var registeredSeries = regexp.MustCompile(`(?m)^usher_webhook_registered\{field="([^"]*)",state="([^"]*)",webhook="([^"]*)"\} 1$`)

// states returns what a replica reports of the webhook, such as "changed rules".
func states(ctx context.Context, r *kubetest.Replica) (all []string, err error) {
	_, text, err := r.Get(ctx, "/metrics")
	for _, m := range registeredSeries.FindAllStringSubmatch(text, -1) {
		if m[3] == watched {
			all = append(all, strings.TrimSpace(m[2]+" "+m[1]))
		}
	}
	slices.Sort(all)
	return all, err
}

// startWatching starts replicas with the rights of deploy/base.
func startWatching(ctx context.Context, t *testing.T, replicas int, flags ...string) *kubetest.Usher {
	t.Helper()
	options, err := cluster.Watching(kubetest.UsherOptions{Name: "watching-" + strings.ToLower(t.Name()), Replicas: replicas, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	u, err := cluster.StartUsher(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Stop)
	return u
}

// reports waits until every replica reports states of the webhook.
func reports(ctx context.Context, t *testing.T, u *kubetest.Usher, want ...string) {
	t.Helper()
	for _, r := range u.Replicas {
		within(ctx, t, soon, func(ctx context.Context) error {
			got, err := states(ctx, r)
			if err != nil || !slices.Equal(got, want) {
				return fmt.Errorf("%s reports %q, want %q (%v)", r.Name, got, want, err)
			}
			return nil
		})
	}
}

// within fails the test unless a check passes in time.
func within(ctx context.Context, t *testing.T, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := kubetest.Eventually(ctx, check); err != nil {
		t.Fatal(err)
	}
}

// edit changes the webhook as kubectl edit does.
func edit(ctx context.Context, t *testing.T, change func(w kubetest.Object)) {
	t.Helper()
	configuration, err := cluster.Admin().Get(ctx, validating)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range configuration.List("webhooks") {
		if w.String("name") == watched {
			change(w)
		}
	}
	if _, err := cluster.Admin().Update(ctx, validating+"?fieldManager=kubectl-edit", configuration); err != nil {
		t.Fatal(err)
	}
}

// putBack makes the webhook what it was.
func putBack(t *testing.T, w kubetest.Object, before []byte) {
	t.Helper()
	clear(w)
	if err := json.Unmarshal(before, &w); err != nil {
		t.Fatal(err)
	}
}

// TestChangesOfTheRegistrationAreReported: by every replica, within seconds, and no longer once they are undone. /readyz does not
// depend on them.
func TestChangesOfTheRegistrationAreReported(t *testing.T) {
	ctx := cluster.Within(t, 4*time.Minute)
	remove(ctx, t)
	u := startWatching(ctx, t, 2)
	own := "--ca-file=" + u.CAFile
	reports(ctx, t, u, "missing")
	apply(ctx, t, 0, []string{"registered"}, own)
	reports(ctx, t, u, "expected")
	foreign, err := os.ReadFile(usher.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(entry(ctx, t, validating, watched))
	if err != nil {
		t.Fatal(err)
	}
	service := func(w kubetest.Object) kubetest.Object {
		return kubetest.Object(w.At("clientConfig", "service").(map[string]any))
	}
	for _, c := range []struct {
		name   string
		change func(w kubetest.Object)
		want   string
	}{
		{"Ignore", func(w kubetest.Object) { w["failurePolicy"] = "Ignore" }, "changed failurePolicy"},
		{"operations", func(w kubetest.Object) { w.List("rules")[0]["operations"] = []string{"DELETE"} }, "changed rules"},
		{"a namespace", func(w kubetest.Object) {
			w["namespaceSelector"] = kubetest.Object{"matchLabels": kubetest.Object{"admission-webhook": "enabled"}, "matchExpressions": []kubetest.Object{
				{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []string{"kube-system", "usher", "shop"}}}}
		}, "changed namespaceSelector"},
		{"objects", func(w kubetest.Object) {
			w["objectSelector"] = kubetest.Object{"matchLabels": kubetest.Object{"a": "b"}}
		}, "changed objectSelector"},
		{"a condition", func(w kubetest.Object) {
			w["matchConditions"] = []kubetest.Object{{"name": "nobody", "expression": "false"}}
		}, "changed matchConditions"},
		{"another Service", func(w kubetest.Object) { service(w)["name"] = "evil" }, "changed clientConfig"},
		{"another CA", func(w kubetest.Object) {
			w["clientConfig"] = kubetest.Object{"service": service(w), "caBundle": foreign}
		}, "changed caBundle"},
		{"a URL", func(w kubetest.Object) {
			w["clientConfig"] = kubetest.Object{"url": "https://evil.example/validate-pods", "caBundle": w.String("clientConfig", "caBundle")}
		}, "changed clientConfig"},
		{"the timeout", func(w kubetest.Object) { w["timeoutSeconds"] = 1 }, "changed timeoutSeconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			edit(ctx, t, func(w kubetest.Object) {
				putBack(t, w, before)
				c.change(w)
			})
			reports(ctx, t, u, c.want)
			if code, _, err := u.Replicas[0].Get(ctx, "/readyz"); code != 200 {
				t.Errorf("/readyz: %d %v", code, err)
			}
		})
	}
	edit(ctx, t, func(w kubetest.Object) { putBack(t, w, before) })
	reports(ctx, t, u, "expected")
	if log := u.Replicas[0].Process().Log(); !strings.Contains(log, "validate-pods.usher.dev: failurePolicy is ") || !strings.Contains(log, "written by kubectl-edit") {
		t.Error("the log does not name the writer")
	}
}

// TestChoicesAreNoChanges: what `usher webhooks apply` was told is as expected; the same by another writer is not, also after an
// apply that leaves it, until an apply takes it over.
func TestChoicesAreNoChanges(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	remove(ctx, t)
	u := startWatching(ctx, t, 2)
	own := "--ca-file=" + u.CAFile
	apply(ctx, t, 0, []string{"registered"}, own, "--fail-open=all")
	reports(ctx, t, u, "expected")
	apply(ctx, t, 0, []string{"registered"}, own)
	edit(ctx, t, func(w kubetest.Object) { w["failurePolicy"] = "Ignore" })
	reports(ctx, t, u, "changed failurePolicy")
	apply(ctx, t, 1, []string{`failurePolicy stays "Ignore", as "kubectl-edit" has set it`, "--force-conflicts"}, own, "--exclude-namespace=rook-ceph")
	apply(ctx, t, 0, []string{"nothing to do"}, own, "--exclude-namespace=rook-ceph", "--fail-open=/validate-pods", "--dry-run")
	time.Sleep(soon)
	reports(ctx, t, u, "changed failurePolicy")
	apply(ctx, t, 0, []string{`failurePolicy: stays as "kubectl-edit" has set it, and counts as chosen`, "registered"}, own, "--exclude-namespace=rook-ceph", "--fail-open=/validate-pods", "--force-conflicts")
	reports(ctx, t, u, "expected")
}

// TestDeletionsAreReported: of one configuration and of both, as by the command that disables usher; and that it cannot be known.
func TestDeletionsAreReported(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	remove(ctx, t)
	u := startWatching(ctx, t, 2)
	own := "--ca-file=" + u.CAFile
	apply(ctx, t, 0, []string{"registered"}, own)
	reports(ctx, t, u, "expected")
	if _, err := cluster.Admin().Delete(ctx, validating); err != nil {
		t.Fatal(err)
	}
	reports(ctx, t, u, "missing")
	apply(ctx, t, 0, []string{"registered"}, own)
	reports(ctx, t, u, "expected")
	if _, err := cluster.Kubectl(ctx, "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "-l", "app.kubernetes.io/name=usher"); err != nil {
		t.Fatal(err)
	}
	reports(ctx, t, u, "missing")
	apply(ctx, t, 0, []string{"registered"}, own)
	const binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/usher-registration"
	if _, err := cluster.Admin().Delete(ctx, binding); err != nil {
		t.Fatal(err)
	}
	reports(ctx, t, u, "unknown")
	if _, err := cluster.Kubectl(ctx, "apply", "-f", "deploy/base/clusterrolebinding.yaml"); err != nil {
		t.Fatal(err)
	}
	reports(ctx, t, u, "expected")
}

// TestSaveAndRestore: what is missing is created, what differs stays, a webhook that nothing answers is left out, and nothing of
// others is touched.
func TestSaveAndRestore(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	remove(ctx, t)
	apply(ctx, t, 0, []string{"registered"})
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	cluster.MustApply(ctx, t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "saved"},
		"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]},
		"validations": [{"expression": "true"}]}}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "saved"},
		"spec": {"policyName": "saved", "validationActions": ["Deny"]}}`)
	const theirs = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/theirs"
	cluster.MustApply(ctx, t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "theirs"},
		"webhooks": [{"name": "of.theirs.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "theirs", "name": "gone"}},
		"rules": [{"apiGroups": ["theirs.dev"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]}]}`)
	for _, path := range []string{theirs, policies + "/saved", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/saved"} {
		cluster.DeleteAfter(t, path)
	}

	file := t.TempDir() + "/admission.yaml"
	admin := "--kubeconfig=" + cluster.AdminKubeconfig()
	if out, code := run(ctx, t, "save", admin, "--out="+file); code != 0 || !strings.Contains(out, file+": ") {
		t.Fatalf("save: %d %s", code, out)
	}
	restore := func(code int, texts []string, flags ...string) {
		t.Helper()
		out, got := run(ctx, t, append([]string{"restore", admin, file}, flags...)...)
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("the output lacks %q:\n%s", text, out)
			}
		}
		if got != code {
			t.Errorf("exit code %d, want %d:\n%s", got, code, out)
		}
	}
	restore(0, []string{"nothing to do"})
	before := entry(ctx, t, validating, watched)
	for _, path := range []string{validating, mutating, theirs, policies + "/saved"} {
		if _, err := cluster.Admin().Delete(ctx, path); err != nil && path != mutating {
			t.Fatal(err)
		}
	}
	restore(1, []string{"+ ValidatingAdmissionPolicy saved: is missing", "+ ValidatingWebhookConfiguration usher: is missing",
		"ValidatingWebhookConfiguration theirs: is not restored: it has failurePolicy Fail, and no endpoint of the Service theirs/gone is ready"}, "--dry-run")
	called(ctx, t, false)
	restore(1, []string{"restored: "}, "--yes")
	called(ctx, t, true)
	after := entry(ctx, t, validating, watched)
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("restored: %v\nwas: %v", after, before)
	}
	edit(ctx, t, func(w kubetest.Object) { w["failurePolicy"] = "Ignore" })
	restore(1, []string{"ValidatingWebhookConfiguration usher: differs, and stays", "--force"})
	restore(0, []string{"~ ValidatingWebhookConfiguration usher: differs, and is replaced", "+ ValidatingWebhookConfiguration theirs"}, "--yes", "--force")
	restore(0, []string{"nothing to do"})
}
