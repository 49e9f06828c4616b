package e2e

import (
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestWhatAWebhookCanChange is the table of docs/what-a-webhook-can-change.md.
func TestWhatAWebhookCanChange(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	const pods = "/api/v1/namespaces/changes/pods"
	namespace(ctx, t, "changes", nil)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "changes"},
		"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}}`)
	webhook := cluster.NewPatcher(ctx, t, "changes", "changes")
	for _, c := range []struct {
		name, patch string
		path        []any  // what is looked at in the stored pod
		want        string // there; "" for nothing
		refused     string
	}{
		{name: "labels", patch: `[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]`, path: []any{"metadata", "labels", "a"}, want: "b"},
		{name: "defaults-again", patch: `[{"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}}]`,
			path: []any{"spec", "containers", 1, "imagePullPolicy"}, want: "IfNotPresent"},
		{name: "no-limit-range-again", patch: `[{"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}}]`,
			path: []any{"spec", "containers", 1, "resources", "requests", "cpu"}, want: "100m"},
		{name: "unknown-field", patch: `[{"op": "add", "path": "/spec/nodeSelectr", "value": {"a": "b"}}]`, path: []any{"spec", "nodeSelectr"}},
		{name: "status", patch: `[{"op": "add", "path": "/status/phase", "value": "Running"}]`, path: []any{"status", "phase"}, want: "Pending"},
		{name: "creation-time", patch: `[{"op": "add", "path": "/metadata/selfLink", "value": "/mine"}]`, path: []any{"metadata", "selfLink"}},
		{name: "own-name", patch: `[{"op": "replace", "path": "/metadata/name", "value": "renamed"}]`, path: []any{"metadata", "name"}, want: "renamed"},
		{name: "own-namespace", patch: `[{"op": "replace", "path": "/metadata/namespace", "value": "default"}]`, refused: "400 BadRequest"},
		{name: "invalid", patch: `[{"op": "add", "path": "/spec/restartPolicy", "value": "Sometimes"}]`, refused: "spec.restartPolicy"},
		{name: "no-such-path", patch: `[{"op": "replace", "path": "/spec/nowhere/deep", "value": 1}]`, refused: "500 InternalError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster.DeleteAfter(t, pods+"/"+c.name)
			pod := kubetest.Decode(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}`)
			metadata := pod["metadata"].(map[string]any)
			metadata["name"], metadata["annotations"] = c.name, map[string]any{"patch": c.patch}
			stored, err := cluster.Admin().Create(ctx, pods, pod)
			if c.refused != "" {
				kubetest.RefusedWith(t, err, c.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := stored.String(c.path...); got != c.want {
				t.Errorf("%v is %q, want %q", c.path, got, c.want)
			}
			seen := webhook.Saw("CREATE", c.name)
			if got := seen.String("spec", "containers", 0, "imagePullPolicy"); got != "IfNotPresent" {
				t.Errorf("the webhook saw the image pull policy %q: defaults come before it", got)
			}
			if got := seen.String("spec", "containers", 0, "resources", "requests", "cpu"); got != "100m" {
				t.Errorf("the webhook saw the request %q: LimitRanger comes before it", got)
			}
		})
	}
}

// TestWhatAWebhookCanChangeLater is the part of that table about requests that create nothing.
func TestWhatAWebhookCanChangeLater(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	const pods = "/api/v1/namespaces/later/pods"
	namespace(ctx, t, "later", nil)
	webhook := cluster.NewPatcher(ctx, t, "later", "later")
	make := func(t *testing.T, name string) {
		t.Helper()
		cluster.DeleteAfter(t, pods+"/"+name)
		if _, err := cluster.Admin().Create(ctx, pods, kubetest.Decode(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q},
			"spec": {"containers": [{"name": "a", "image": "a:1"}]}}`, name))); err != nil {
			t.Fatal(err)
		}
	}
	annotate := func(path, patch, more string) error {
		body := fmt.Sprintf(`{"metadata": {"annotations": {"patch": %s}}%s}`, kubetest.Encode(patch), more)
		_, err := cluster.Admin().Patch(ctx, path, kubetest.MergePatch, body)
		return err
	}
	t.Run("update of a mutable field", func(t *testing.T) {
		make(t, "mutable")
		if err := annotate(pods+"/mutable", `[{"op": "replace", "path": "/spec/containers/0/image", "value": "a:2"}]`, ""); err != nil {
			t.Fatal(err)
		}
		if got := stored(ctx, t, pods+"/mutable").String("spec", "containers", 0, "image"); got != "a:2" {
			t.Errorf("image %s", got)
		}
	})
	t.Run("update of an immutable field", func(t *testing.T) {
		make(t, "immutable")
		err := annotate(pods+"/immutable", `[{"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}]`, "")
		kubetest.RefusedWith(t, err, "422", "pod updates may not change fields other than")
	})
	t.Run("update of the status", func(t *testing.T) {
		make(t, "status")
		patch := `[{"op": "add", "path": "/status/message", "value": "hello"}, {"op": "replace", "path": "/spec/containers/0/image", "value": "a:3"}]`
		if err := annotate(pods+"/status/status", patch, `, "status": {"reason": "x"}`); err != nil {
			t.Fatal(err)
		}
		pod := stored(ctx, t, pods+"/status")
		if message, image := pod.String("status", "message"), pod.String("spec", "containers", 0, "image"); message != "hello" || image != "a:1" {
			t.Errorf("message %q, image %q: through a subresource only its own part is stored", message, image)
		}
	})
	t.Run("deletion", func(t *testing.T) {
		make(t, "gone")
		if err := annotate(pods+"/gone", `[]`, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Admin().Delete(ctx, pods+"/gone"); err != nil {
			t.Fatal(err)
		}
		if seen := webhook.Saw("DELETE", "gone"); seen.String("metadata", "name") != "gone" {
			t.Errorf("the webhook saw %v: the object of a deletion is oldObject", seen)
		}
	})
	t.Run("a patch of a deletion", func(t *testing.T) {
		make(t, "kept")
		if err := annotate(pods+"/kept", `[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]`, ""); err != nil {
			t.Fatal(err)
		}
		_, err := cluster.Admin().Delete(ctx, pods+"/kept")
		kubetest.RefusedWith(t, err, "500", "attempted to modify the object, which is not supported for this operation")
		_ = annotate(pods+"/kept", `[]`, "")
	})
	t.Run("exec", func(t *testing.T) {
		make(t, "exec")
		_, err := cluster.Admin().Create(ctx, pods+"/exec/exec?command=ls&container=a", "{}")
		kubetest.RefusedWith(t, err, "400", "denied the request")
		if seen := webhook.Saw("CONNECT", "exec"); seen.String("kind") != "PodExecOptions" {
			t.Errorf("the webhook saw %v", seen)
		}
	})
	t.Run("generated name", func(t *testing.T) {
		pod, err := cluster.Admin().Create(ctx, pods, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "made-"},
			"spec": {"containers": [{"name": "a", "image": "a:1"}]}}`)
		if err != nil {
			t.Fatal(err)
		}
		name := pod.String("metadata", "name")
		cluster.DeleteAfter(t, pods+"/"+name)
		if seen := webhook.Saw("CREATE", ""); seen.String("metadata", "generateName") != "made-" || seen.String("metadata", "name") != "" {
			t.Errorf("the webhook saw %v: a name is generated after it", seen.At("metadata"))
		}
	})
}

// TestServiceAccountComesFirst: the plugin ServiceAccount sets the account and mounts its token before webhooks are called, and once more after
// them: a container that a webhook adds gets the mount, too.
func TestServiceAccountComesFirst(t *testing.T) {
	ctx := t.Context()
	c, err := kubetest.Start(ctx, kubetest.Options{ServiceAccounts: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	c.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "accounts"}}
---
{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "accounts"}}`)
	webhook := c.NewPatcher(ctx, t, "accounts", "accounts")
	seen := webhook.Saw("CREATE", "probe")
	if got := seen.String("spec", "serviceAccountName"); got != "default" {
		t.Errorf("the webhook saw the account %q", got)
	}
	if got := seen.List("spec", "containers", 0, "volumeMounts"); len(got) != 1 {
		t.Errorf("the webhook saw the mounts %v", got)
	}
	injected := `[{"op": "add", "path": "/spec/containers/-", "value": {"name": "injected", "image": "example.com/a:1"}}]`
	pod, err := c.Admin().Create(ctx, "/api/v1/namespaces/accounts/pods?dryRun=All", kubetest.Object{
		"metadata": kubetest.Object{"name": "injected", "annotations": kubetest.Object{"patch": injected}},
		"spec":     kubetest.Object{"containers": []any{kubetest.Object{"name": "a", "image": "example.com/a:1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.List("spec", "containers", 1, "volumeMounts"); len(got) != 1 {
		t.Errorf("the injected container has the mounts %v", got)
	}
}
