package colocation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// The values of --exclude-namespace and --exclude-pods in these tests.
const (
	excludedNamespace = "outage-excluded"
	excludedAccount   = "outage-held/csi"
)

// TestWithoutUsher: while usher is unavailable, excluded pods can start; finalizers and other bookkeeping can be
// written and pods deleted everywhere; changes that usher checks are refused; and afterwards everything works as
// before.
func TestWithoutUsher(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	const held = "outage-held"
	for _, name := range []string{held, excludedNamespace} {
		cluster.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, name))
	}
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "outage-exempt", "labels": {"usher.dev/exempt": "true"}}}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "outage-not-exempt", "labels": {"usher.dev/exempt": "false"}}}`)
	objects := guarded(ctx, t, held)

	start := usher.KillAll(ctx, t)
	t.Run("pods of namespaces that are left out are created", func(t *testing.T) {
		for _, namespace := range []string{excludedNamespace, "outage-exempt"} {
			if err := createPod(ctx, t, namespace, "dns"); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("pods of others are not", func(t *testing.T) {
		for _, namespace := range []string{held, "outage-not-exempt"} {
			kubetest.RefusedWith(t, createPod(ctx, t, namespace, "dns"), "failed calling webhook", "mutate-pod.usher.dev")
		}
	})
	t.Run("pods of an excluded service account are created and changed", func(t *testing.T) {
		path := podsOf(held) + "/csi"
		cluster.DeleteAfter(t, path)
		if err := createPodAs(ctx, held, "csi", "csi"); err != nil {
			t.Fatal(err)
		}
		if err := patchObject(ctx, path, `{"metadata": {"labels": {"leader": "yes"}}}`); err != nil {
			t.Error(err)
		}
		kubetest.RefusedWith(t, createPodAs(ctx, held, "other", "default"), "failed calling webhook", "mutate-pod.usher.dev")
		kubetest.RefusedWith(t, createPodAs(ctx, "outage-not-exempt", "csi", "csi"), "failed calling webhook", "mutate-pod.usher.dev")
	})
	for path, checked := range objects {
		t.Run("bookkeeping of "+path, func(t *testing.T) {
			for _, body := range []string{`{"metadata": {"finalizers": ["example.com/keep", "example.com/more"]}}`,
				`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "o", "uid": "1"}]}}`} {
				if err := patchObject(ctx, path, body); err != nil {
					t.Error(err)
				}
			}
			kubetest.RefusedWith(t, patchObject(ctx, path, checked), "failed calling webhook")
		})
	}
	t.Run("the status of a quota is written", func(t *testing.T) {
		if err := patchObject(ctx, "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/"+held+"/elasticquotas/outage", `{"status": {"used": {"cpu": "1"}}}`); err != nil {
			t.Error(err)
		}
	})
	t.Run("a pod is deleted", func(t *testing.T) {
		path := podsOf(held) + "/before"
		if _, err := cluster.Admin().Delete(ctx, path); err != nil {
			t.Error(err)
		}
		if err := patchObject(ctx, path, `{"metadata": {"finalizers": null}}`); err != nil {
			t.Error(err)
		}
		if o, err := cluster.Admin().Get(ctx, path); err == nil {
			t.Errorf("it is still there: %v", o)
		}
	})
	start()

	if err := createPod(ctx, t, held, "after"); err != nil {
		t.Error(err)
	}
	kubetest.RefusedWith(t, patchObject(ctx, podsOf(held)+"/after", `{"metadata": {"labels": {"koordinator.sh/qosClass": "BE"}}}`), "qos-priority")
}

// guarded creates an object of each kind whose updates usher may refuse, and returns for each a patch of a field that
// it checks.
func guarded(ctx context.Context, t *testing.T, namespace string) map[string]string {
	t.Helper()
	pod := batchPod("before")
	pod["metadata"].(kubetest.Object)["labels"] = kubetest.Object{"koordinator.sh/qosClass": "LS"}
	quotas := "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/" + namespace + "/elasticquotas"
	maps := "/api/v1/namespaces/koordinator-system/configmaps"
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}`)
	checked := map[string]string{}
	for _, o := range []struct {
		collection, name, patch string
		object                  any
	}{
		{podsOf(namespace), "before", `{"metadata": {"labels": {"any": "label"}}}`, pod},
		{quotas, "outage", `{"spec": {"max": {"cpu": "5"}}}`, `{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
			"metadata": {"name": "outage"}, "spec": {"max": {"cpu": "4"}, "min": {"cpu": "1"}}}`},
		{reservations, "outage", `{"spec": {"ttl": "2h"}}`, `{"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
			"metadata": {"name": "outage"}, "spec": {"ttl": "1h", "owners": [{"labelSelector": {"matchLabels": {"app": "a"}}}],
			"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}`},
		{profiles, "outage", `{"spec": {"qosClass": "BE"}}`, `{"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
			"metadata": {"name": "outage"}, "spec": {"selector": {"matchLabels": {"nobody": "has"}}}}`},
		{maps, "slo-controller-config", `{"data": {"other": "key"}}`, `{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": {"name": "slo-controller-config"}, "data": {}}`},
	} {
		if _, err := cluster.Admin().Create(ctx, o.collection, o.object); err != nil {
			t.Fatal(err)
		}
		path := o.collection + "/" + o.name
		checked[path] = o.patch
		t.Cleanup(func() { release(path) })
	}
	return checked
}

// release removes an object and its finalizers.
func release(path string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = patchObject(ctx, path, `{"metadata": {"finalizers": null}}`)
	_, _ = cluster.Admin().Delete(ctx, path)
}

func podsOf(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }

func createPod(ctx context.Context, t *testing.T, namespace, name string) error {
	t.Helper()
	cluster.DeleteAfter(t, podsOf(namespace)+"/"+name)
	_, err := cluster.Admin().Create(ctx, podsOf(namespace), batchPod(name))
	return err
}

// createPodAs creates a pod of a service account.
func createPodAs(ctx context.Context, namespace, name, account string) error {
	pod := batchPod(name)
	pod["spec"].(kubetest.Object)["serviceAccountName"] = account
	_, err := cluster.Admin().Create(ctx, podsOf(namespace), pod)
	return err
}

func patchObject(ctx context.Context, path, body string) error {
	_, err := cluster.Admin().Patch(ctx, path, kubetest.MergePatch, body)
	return err
}
