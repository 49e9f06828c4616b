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
	t.Cleanup(func() {
		u.Stop()
		if err := usher.Serve(context.Background()); err != nil {
			t.Error(err)
		}
	})
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
