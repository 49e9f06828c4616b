package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const (
	prefix   = "quota.scheduling.koordinator.sh/"
	recordOf = "usher.dev/reservations"
	cleaning = 30 * time.Second
)

func podPath(namespace, name string) string {
	path := "/api/v1/namespaces/" + namespace + "/pods"
	if name != "" {
		path += "/" + name
	}
	return path
}

func quotaPath(namespace, name string) string {
	path := "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/" + namespace + "/elasticquotas"
	if name != "" {
		path += "/" + name
	}
	return path
}

// newPod returns a pod that requests CPU; label names its quota, unless it is empty.
func newPod(name, label, cpu string) kubetest.Object {
	meta := kubetest.Object{"name": name}
	if label != "" {
		meta["labels"] = kubetest.Object{prefix + "name": label}
	}
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": meta,
		"spec": kubetest.Object{"containers": []any{kubetest.Object{"name": "c", "image": "registry.k8s.io/pause:3.10",
			"resources": kubetest.Object{"requests": kubetest.Object{"cpu": cpu}}}}}}
}

func createPod(ctx context.Context, namespace, name, label, cpu string) error {
	_, err := cluster.Admin().Create(ctx, podPath(namespace, ""), newPod(name, label, cpu))
	return err
}

func deletePod(ctx context.Context, t *testing.T, namespace, name string) {
	t.Helper()
	if _, err := cluster.Admin().Delete(ctx, podPath(namespace, name)); err != nil {
		t.Fatal(err)
	}
}

// newQuota returns a quota with a CPU limit; parent is empty at the top.
func newQuota(namespace, name, parent, cpu string, isParent bool) kubetest.Object {
	labels := kubetest.Object{prefix + "is-parent": fmt.Sprint(isParent)}
	if parent != "" {
		labels[prefix+"parent"] = parent
	}
	return kubetest.Object{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
		"metadata": kubetest.Object{"name": name, "namespace": namespace, "labels": labels, "annotations": kubetest.Object{}},
		"spec":     kubetest.Object{"max": kubetest.Object{"cpu": cpu}, "min": kubetest.Object{}}}
}

// grow creates a namespace and quotas in it, the parents first, and waits until every replica uses them.
func grow(ctx context.Context, t *testing.T, namespace string, quotas ...kubetest.Object) {
	t.Helper()
	cluster.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q, "labels": {"other-webhook": "yes"}}}`, namespace))
	for _, q := range quotas {
		if _, err := cluster.Admin().Create(ctx, quotaPath(namespace, ""), q); err != nil {
			t.Fatal(err)
		}
	}
	eventually(ctx, t, func(ctx context.Context) error {
		for _, q := range quotas {
			if err := known(ctx, q["metadata"].(kubetest.Object)["name"].(string)); err != nil {
				return err
			}
		}
		return nil
	})
	t.Cleanup(func() { raze(namespace) })
}

// known checks that every replica knows a quota.
func known(ctx context.Context, name string) error {
	for i, r := range usher.Replicas {
		rows, err := report(ctx, i)
		if err != nil {
			return err
		}
		if find(rows, name) == nil {
			return fmt.Errorf("%s does not know quota %s", r.Name, name)
		}
	}
	return nil
}

// row is a quota in /debug/quotas.
type row struct {
	Name, Namespace string
	Resources       []struct{ Name, Used, Asked, Reserved, Limit, Source string }
	Waiting         []struct{ Pod string }
	Children        []row
}

// report returns a replica's report on the quotas.
func report(ctx context.Context, replica int) (rows []row, err error) {
	return reportOf(ctx, usher.Replicas[replica])
}

func reportOf(ctx context.Context, replica *kubetest.Replica) (rows []row, err error) {
	status, text, err := replica.Get(ctx, "/debug/quotas?o=json&pods=true")
	if err == nil && status != 200 {
		err = fmt.Errorf("/debug/quotas: %d %s", status, text)
	}
	if err != nil {
		return nil, err
	}
	return rows, json.Unmarshal([]byte(text), &rows)
}

func find(rows []row, name string) *row {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
		if below := find(rows[i].Children, name); below != nil {
			return below
		}
	}
	return nil
}

// settled waits until every replica counts a given amount of CPU as used in a quota.
func settled(ctx context.Context, t *testing.T, name, cpu string) {
	t.Helper()
	eventually(ctx, t, func(ctx context.Context) error {
		for i, r := range usher.Replicas {
			rows, err := report(ctx, i)
			if err != nil {
				return err
			}
			if q := find(rows, name); q == nil || len(q.Resources) != 1 || q.Resources[0].Used != cpu {
				return fmt.Errorf("%s counts %v in quota %s, want %s", r.Name, q, name, cpu)
			}
		}
		return nil
	})
}

// record returns the reservations annotation of a top quota.
func record(ctx context.Context, t *testing.T, namespace, name string) (text, version string) {
	t.Helper()
	object, err := cluster.Admin().Get(ctx, quotaPath(namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	return object.String("metadata", "annotations", recordOf), object.String("metadata", "resourceVersion")
}

// raze deletes the pods and quotas of a namespace, children first.
func raze(namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	_, _ = cluster.Admin().Delete(ctx, podPath(namespace, ""))
	_ = kubetest.Eventually(ctx, func(ctx context.Context) error {
		list, err := cluster.Admin().Get(ctx, quotaPath(namespace, ""))
		if err != nil {
			return err
		}
		for _, q := range list.List("items") {
			_, _ = cluster.Admin().Delete(ctx, quotaPath(namespace, q.String("metadata", "name"))) // a parent only after its children
		}
		if left := len(list.List("items")); left > 0 {
			return fmt.Errorf("%d quotas are left", left)
		}
		return nil
	})
}
