package registration

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestWhatOthersSetStays: parts of selectors stay for good; a field that differs stays and is reported, until it is
// taken over.
func TestWhatOthersSetStays(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	remove(ctx, t)
	apply(ctx, t, 0, nil)
	const name = "validate-pods.usher.dev"
	change := func(manager string, change func(entry, configuration kubetest.Object)) {
		t.Helper()
		configuration, err := cluster.Admin().Get(ctx, validating)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range configuration.List("webhooks") {
			if w.String("name") == name {
				change(w, configuration)
			}
		}
		if _, err := cluster.Admin().Update(ctx, validating+"?fieldManager="+manager, configuration); err != nil {
			t.Fatal(err)
		}
	}
	change("admissionsenforcer", func(w, c kubetest.Object) { // as AKS does
		selector := w.At("namespaceSelector").(map[string]any)
		selector["matchExpressions"] = append(selector["matchExpressions"].([]any),
			map[string]any{"key": "control-plane", "operator": "NotIn", "values": []string{"true"}})
		w["objectSelector"] = map[string]any{"matchLabels": map[string]any{"theirs": "yes"}}
		other := kubetest.Object{}
		for key, value := range w {
			other[key] = value
		}
		other["name"] = "of.somebody.else"
		c["webhooks"] = append(c["webhooks"].([]any), map[string]any(other))
	})
	apply(ctx, t, 0, []string{"nothing to do"})
	apply(ctx, t, 0, []string{"kube-system,rook-ceph,usher", "control-plane notin (true)"}, "--exclude-namespace=rook-ceph")
	w := fmt.Sprint(entry(ctx, t, validating, name))
	for _, text := range []string{"control-plane", "rook-ceph", "theirs"} {
		if !strings.Contains(w, text) {
			t.Errorf("%s is gone: %s", text, w)
		}
	}
	if entry(ctx, t, validating, "of.somebody.else") == nil {
		t.Error("the entry of somebody else is gone")
	}

	change("kubectl-edit", func(w, _ kubetest.Object) { w["failurePolicy"] = "Ignore" })
	stays := name + `: failurePolicy stays "Ignore", as "kubectl-edit" has set it; usher needs "Fail"`
	apply(ctx, t, 1, []string{"nothing to do", stays, "--force-conflicts"}, "--exclude-namespace=rook-ceph")
	apply(ctx, t, 1, []string{"+ validate-rules.usher.dev", stays}, "--exclude-namespace=rook-ceph", "--config="+policyWithRules(t))
	apply(ctx, t, 0, []string{`failurePolicy: "Ignore" -> "Fail"`, "- validate-rules.usher.dev"}, "--exclude-namespace=rook-ceph", "--force-conflicts")
	apply(ctx, t, 0, []string{"nothing to do"}, "--exclude-namespace=rook-ceph")
	if out, code := run(ctx, t, "remove", "--kubeconfig="+cluster.AdminKubeconfig()); code != 2 || !strings.Contains(out, "not usher's are removed with them: of.somebody.else") {
		t.Errorf("remove: %d %s", code, out)
	}
}

// policyWithRules returns a policy that needs another webhook.
func policyWithRules(t *testing.T) string {
	t.Helper()
	file := t.TempDir() + "/policy.yaml"
	text := content(t, usher.PolicyFile()) + "\nrules: [{name: few, match: {apiGroups: [apps], resources: [deployments], operations: [CREATE]}, " +
		"validations: [{expression: object.spec.replicas < 9, message: too many}]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestWhatKubectlRegisteredIsTakenOver: entries that are no longer needed go, of any writer, and so do fields
// that kubectl applied.
func TestWhatKubectlRegisteredIsTakenOver(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	remove(ctx, t)
	printed, err := usher.Webhooks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.ReplaceAll(printed, "  name: validate-pods.usher.dev", "  name: validate-old.usher.dev")
	old = strings.ReplaceAll(old, "  name: mutate-pods.usher.dev\n", "  name: mutate-pods.usher.dev\n  objectSelector: {matchLabels: {usher.dev/old: \"true\"}}\n")
	theirs := strings.ReplaceAll(old, "\n  name: usher\nwebhooks:\n", `
    team: platform
  name: usher
webhooks:
- name: of.somebody.else
  clientConfig: {url: "https://127.0.0.1:1/else"}
  rules: [{apiGroups: [else.example.com], apiVersions: [v1], operations: [CREATE], resources: [things], scope: Namespaced}]
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
`)
	if old == printed || theirs == old {
		t.Fatal("nothing was changed in what is printed")
	}
	cluster.MustApply(ctx, t, theirs)
	apply(ctx, t, 0, []string{"+ validate-pods.usher.dev", "- validate-old.usher.dev: is no longer needed", "registered"})
	if entry(ctx, t, validating, "validate-old.usher.dev") != nil {
		t.Error("validate-old.usher.dev is left")
	}
	if selector := entry(ctx, t, mutating, "mutate-pods.usher.dev").At("objectSelector", "matchLabels"); selector != nil {
		t.Errorf("the objectSelector that kubectl applied is left: %v", selector)
	}
	if entry(ctx, t, validating, "of.somebody.else") == nil {
		t.Error("the entry of somebody else is gone")
	}
	if c, err := cluster.Admin().Get(ctx, validating); err != nil || c.String("metadata", "labels", "team") != "platform" {
		t.Errorf("the label of somebody else is gone: %v, %v", c.At("metadata", "labels"), err)
	}
	apply(ctx, t, 0, []string{"nothing to do"})
	called(ctx, t, true)
}

// TestTwoAtOnce: two Jobs do not spoil each other's work.
func TestTwoAtOnce(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	remove(ctx, t)
	done := make(chan int)
	for i := range 4 {
		go func() {
			_, code := run(ctx, t, "apply", "--yes", "--kubeconfig="+cluster.AdminKubeconfig(), "--ca-file="+usher.CAFile, "--config="+usher.PolicyFile(),
				fmt.Sprintf("--exclude-namespace=n%d", i/2))
			done <- code
		}()
	}
	for range 4 {
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	called(ctx, t, true)
}

func read(t *testing.T, file string) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString([]byte(content(t, file)))
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
