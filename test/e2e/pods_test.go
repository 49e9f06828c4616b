package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// way is one of the ways to create a pod. It returns the object that the API server stored, or would store.
type way struct {
	name   string
	create func(ctx context.Context, pod kubetest.Object, dryRun bool) (kubetest.Object, error)
}

var ways = []way{
	{"create", func(ctx context.Context, pod kubetest.Object, dryRun bool) (kubetest.Object, error) {
		return cluster.Admin().Create(ctx, podPath(namespaceOf(pod), "")+dry("?dryRun=All", dryRun), pod)
	}},
	{"server-side apply", func(ctx context.Context, pod kubetest.Object, dryRun bool) (kubetest.Object, error) {
		path := podPath(namespaceOf(pod), pod.String("metadata", "name")) + "?fieldManager=e2e" + dry("&dryRun=All", dryRun)
		return cluster.Admin().Patch(ctx, path, kubetest.ApplyPatch, pod)
	}},
	{"kubectl create", func(ctx context.Context, pod kubetest.Object, dryRun bool) (kubetest.Object, error) {
		return kubectl(ctx, pod, dryRun, "create", "-f", "-")
	}},
	{"kubectl apply", func(ctx context.Context, pod kubetest.Object, dryRun bool) (kubetest.Object, error) {
		return kubectl(ctx, pod, dryRun, "apply", "-f", "-")
	}},
	{"kubectl apply --server-side", func(ctx context.Context, pod kubetest.Object, dryRun bool) (kubetest.Object, error) {
		return kubectl(ctx, pod, dryRun, "apply", "--server-side", "-f", "-")
	}},
	{"kubectl run", func(ctx context.Context, pod kubetest.Object, dryRun bool) (kubetest.Object, error) {
		return kubectl(ctx, nil, dryRun, "run", pod.String("metadata", "name"), "-n", namespaceOf(pod), "--image=example.com/a:1",
			"-l", "acme.com/lifespan-requested="+pod.String("metadata", "labels", "acme.com/lifespan-requested"))
	}},
}

func namespaceOf(pod kubetest.Object) string { return pod.String("metadata", "namespace") }

func dry(flag string, dryRun bool) string {
	if dryRun {
		return flag
	}
	return ""
}

func kubectl(ctx context.Context, input kubetest.Object, dryRun bool, args ...string) (o kubetest.Object, err error) {
	args = append(args, "-o", "json")
	if dryRun {
		args = append(args, "--dry-run=server")
	}
	out, err := cluster.KubectlInput(ctx, kubetest.Encode(input), args...)
	if err != nil {
		return nil, err
	}
	return o, json.Unmarshal([]byte(out), &o)
}

func TestPodIsSeatedWhateverTheWay(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			pod := pod("apps", fmt.Sprint("seated-", i), "12")
			path := podPath("apps", pod.String("metadata", "name"))
			cluster.DeleteAfter(t, path)
			for _, dryRun := range []bool{true, false} {
				answer, err := way.create(ctx, pod, dryRun)
				if err != nil {
					t.Fatal(err)
				}
				checkSeated(t, answer, "14 13 12")
				if dryRun {
					checkNotStored(ctx, t, path)
				}
			}
			checkSeated(t, stored(ctx, t, path), "14 13 12")
		})
	}
}

func TestPodIsRefusedWhateverTheWay(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			for _, dryRun := range []bool{true, false} {
				offensive := pod("apps", fmt.Sprint("offensive-", i), "12")
				_, err := way.create(ctx, offensive, dryRun)
				checkSays(t, err, "validate-pods.usher.dev", "denied the request", `contains "offensive"`, "Forbidden")
				checkNotStored(ctx, t, podPath("apps", offensive.String("metadata", "name")))

				// A mutator refuses too, with the invalid field, which is all that kubectl shows of a 422.
				stale := pod("apps", fmt.Sprint("too-long-", i), "15")
				_, err = way.create(ctx, stale, dryRun)
				checkSays(t, err, "metadata.labels[acme.com/lifespan-requested]", "from 0 to 14")
				checkNotStored(ctx, t, podPath("apps", stale.String("metadata", "name")))
			}
		})
	}
}

func TestGeneratedNames(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	unnamed := pod("apps", "", "12")
	metadata := unnamed.At("metadata").(map[string]any)
	delete(metadata, "name")
	metadata["generateName"] = "generated-"
	answer, err := cluster.Admin().Create(ctx, podPath("apps", ""), unnamed)
	if err != nil {
		t.Fatal(err)
	}
	path := podPath("apps", answer.String("metadata", "name"))
	cluster.DeleteAfter(t, path)
	checkSeated(t, stored(ctx, t, path), "14 13 12")

	metadata["generateName"] = "very-offensive-" // the name is generated after the mutating routes and before the validating ones
	_, err = cluster.Admin().Create(ctx, podPath("apps", ""), unnamed)
	checkSays(t, err, "403 Forbidden", `denied the request: denied-names: metadata.name: Forbidden: "very-offensive-`)
}

// Writes to an existing pod: usher is called only for new pods, and its additions remain unchanged.
func TestUpdatesLeaveASeatedPodAlone(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	manifest := pod("apps", "updated", "12")
	path := podPath("apps", "updated")
	cluster.DeleteAfter(t, path)
	if _, err := kubectl(ctx, manifest, false, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	before := stored(ctx, t, path)
	for i, update := range []struct {
		name string
		do   func(mark string) error
	}{
		{"replace", func(mark string) error {
			pod := stored(ctx, t, path)
			pod.At("metadata", "labels").(map[string]any)["mark"] = mark
			_, err := cluster.Admin().Update(ctx, path, pod)
			return err
		}},
		{"merge patch", func(mark string) error {
			return patch(ctx, path, kubetest.MergePatch, `{"metadata": {"labels": {"mark": "`+mark+`"}}}`)
		}},
		{"strategic merge patch", func(mark string) error {
			return patch(ctx, path, kubetest.StrategicPatch, `{"metadata": {"labels": {"mark": "`+mark+`"}}}`)
		}},
		{"JSON patch", func(mark string) error {
			return patch(ctx, path, kubetest.JSONPatch, `[{"op": "add", "path": "/metadata/labels/mark", "value": "`+mark+`"}]`)
		}},
		{"server-side apply", func(mark string) error {
			return patch(ctx, path+"?fieldManager=marker&force=true", kubetest.ApplyPatch,
				`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "updated", "labels": {"mark": "`+mark+`"}}}`)
		}},
		{"kubectl label", func(mark string) error {
			_, err := cluster.Kubectl(ctx, "-n", "apps", "label", "--overwrite", "pod", "updated", "mark="+mark)
			return err
		}},
		{"kubectl apply, and another lifespan", func(mark string) error {
			manifest.At("metadata").(map[string]any)["labels"] = map[string]any{"mark": mark, "acme.com/lifespan-requested": "3"}
			_, err := kubectl(ctx, manifest, false, "apply", "-f", "-")
			return err
		}},
	} {
		t.Run(update.name, func(t *testing.T) {
			mark := fmt.Sprint("m", i)
			if err := update.do(mark); err != nil {
				t.Fatal(err)
			}
			after := stored(ctx, t, path)
			if got := after.String("metadata", "labels", "mark"); got != mark {
				t.Errorf("the update is not stored: mark is %q", got)
			}
			if was, is := kubetest.Encode(before.At("spec")), kubetest.Encode(after.At("spec")); was != is {
				t.Errorf("the spec has changed\nfrom %s\nto   %s", was, is)
			}
		})
	}
}

func patch(ctx context.Context, path, kind, body string) error {
	_, err := cluster.Admin().Patch(ctx, path, kind, body)
	return err
}

// Fields that usher adds have no other manager, so applying the same manifest repeatedly shows no difference and no
// conflict.
func TestAppliedAgainThereIsNoDifference(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	for _, side := range []string{"--server-side=false", "--server-side=true"} {
		t.Run(side, func(t *testing.T) {
			manifest := pod("apps", "again", "12")
			path := podPath("apps", "again")
			for range 2 {
				if _, err := kubectl(ctx, manifest, false, "apply", side, "-f", "-"); err != nil {
					t.Fatal(err)
				}
				checkSeated(t, stored(ctx, t, path), "14 13 12")
			}
			if out, err := cluster.KubectlInput(ctx, kubetest.Encode(manifest), "diff", side, "-f", "-"); err != nil {
				t.Errorf("kubectl diff: %v\n%s", err, out)
			}
			if _, err := cluster.Admin().Delete(ctx, path); err != nil {
				t.Error(err)
			}
		})
	}
}

// In other namespaces pods pass, regardless of their names. kube-system and usher's own namespace pass even with the
// label: no policy may lock out the cluster or usher.
func TestNamespacesThatUsherKeepsOutOf(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	for _, name := range []string{"kube-system", "usher"} {
		if _, err := cluster.Kubectl(ctx, "label", "--overwrite", "namespace", name, optIn+"=enabled"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"default", "kube-system", "usher"} {
		t.Run(name, func(t *testing.T) {
			pod := kubetest.Decode(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "offensive"}, "spec": {
				"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
				"containers": [{"name": "a", "image": "example.com/a:1",
					"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`)
			cluster.DeleteAfter(t, podPath(name, "offensive"))
			if _, err := cluster.Admin().Create(ctx, podPath(name, ""), pod); err != nil {
				t.Fatal(err)
			}
			checkUntouched(t, stored(ctx, t, podPath(name, "offensive")))
		})
	}
	for _, name := range []string{"kube-system", "usher"} {
		if _, err := cluster.Kubectl(ctx, "label", "namespace", name, optIn+"-"); err != nil {
			t.Error(err)
		}
	}
}

// A mirror pod represents a static pod, which the kubelet runs regardless of admission.
func TestMirrorPodPasses(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	node, err := cluster.Admin().Create(ctx, "/api/v1/nodes", `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mirror"}}`)
	if err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, "/api/v1/nodes/mirror")
	path := podPath("apps", "offensive-static-mirror")
	cluster.DeleteAfter(t, path)
	_, err = cluster.Node("mirror").Create(ctx, podPath("apps", ""), fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod",
		"metadata": {"name": "offensive-static-mirror", "annotations": {"kubernetes.io/config.mirror": "6d0b",
			"kubernetes.io/config.source": "file"},
			"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "mirror", "uid": %q, "controller": true}]},
		"spec": {"nodeName": "mirror", "containers": [{"name": "a", "image": "example.com/a:1"}],
			"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}}`, node.String("metadata", "uid")))
	if err != nil {
		t.Fatal(err)
	}
	checkUntouched(t, stored(ctx, t, path))
}
