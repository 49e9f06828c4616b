package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/e2e/kubetest"
)

// plainLedgers are replicas that write once for each pod, one after the other, and read only after a conflict, which is the
// fastest form of this design.
type plainLedgers struct {
	path              string
	all               []plainLedger
	writes, conflicts atomic.Int64
}

type plainLedger struct {
	mu      sync.Mutex
	version string
}

// newPlainLedgers returns n replicas with their record on a quota.
func newPlainLedgers(n int, namespace, quota string) *plainLedgers {
	return &plainLedgers{path: quotaPath(namespace, quota), all: make([]plainLedger, n)}
}

// take decides on a review, in any replica.
func (p *plainLedgers) take(ctx context.Context, r *admissionv1.AdmissionRequest) error {
	l := &p.all[rand.IntN(len(p.all))]
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx.Err() == nil {
		patch := kubetest.Object{"metadata": kubetest.Object{"resourceVersion": l.version, "annotations": kubetest.Object{recordOf: string(r.UID)}}}
		object, err := kubetest.Object(nil), error(nil)
		if l.version == "" {
			object, err = ledgerUser().Get(ctx, p.path)
		} else if object, err = ledgerUser().Patch(ctx, p.path, kubetest.MergePatch, patch); err == nil {
			p.writes.Add(1)
			l.version = object.String("metadata", "resourceVersion")
			return nil
		}
		var refused *kubetest.StatusError
		if errors.As(err, &refused) && refused.Code == 409 {
			p.conflicts.Add(1)
			object, err = ledgerUser().Get(ctx, p.path)
		}
		if err != nil {
			return err
		}
		l.version = object.String("metadata", "resourceVersion")
	}
	return ctx.Err()
}

func (p *plainLedgers) counts(context.Context, *testing.T) map[string]int {
	return map[string]int{written: int(p.writes.Load()), conflict: int(p.conflicts.Load())}
}

// ledgerUser is usher's user at the API server, which does not call usher for its writes.
var ledgerUser = sync.OnceValue(func() *kubetest.Client { return cluster.User(usherUser) })

// resourceQuota is an in-tree ResourceQuota, which the API server enforces with its admission plugin. No controller manager
// runs: nothing gives room back, so the test writes the status.
type resourceQuota struct{ namespace string }

const requestsCPU = "requests.cpu"

// newResourceQuota creates a ResourceQuota in a namespace of its own.
func newResourceQuota(ctx context.Context, t *testing.T, namespace string) resourceQuota {
	t.Helper()
	cluster.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, namespace))
	_, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/resourcequotas", kubetest.Object{"metadata": kubetest.Object{"name": "all"},
		"spec": kubetest.Object{"hard": kubetest.Object{requestsCPU: "100000"}}})
	stored(t, err)
	q := resourceQuota{namespace}
	t.Cleanup(func() { _, _ = cluster.Admin().Delete(context.Background(), q.path()) })
	return q
}

func (q resourceQuota) path() string {
	return "/api/v1/namespaces/" + q.namespace + "/resourcequotas/all"
}

// reset sets the status of a quota in which there are no pods, and waits until the API server has seen it.
func (q resourceQuota) reset(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := cluster.Admin().Patch(ctx, q.path()+"/status", kubetest.MergePatch, kubetest.Object{"status": kubetest.Object{
		"hard": kubetest.Object{requestsCPU: "100000"}, "used": kubetest.Object{requestsCPU: "0"}}})
	stored(t, err)
	eventually(ctx, t, func(ctx context.Context) error {
		_, err := cluster.Admin().Create(ctx, podPath(q.namespace, "")+"?dryRun=All", newPod("trial", "", fmt.Sprintf("%dm", milliPod)))
		return err
	})
}

// check checks that the quota has counted the pods: if the plugin were off, it would have counted none.
func (q resourceQuota) check(ctx context.Context, t *testing.T, c *clients) {
	t.Helper()
	object, err := cluster.Admin().Get(ctx, q.path())
	stored(t, err)
	used, err := resource.ParseQuantity(object.String("status", "used", requestsCPU))
	stored(t, err)
	if least := milliPod * c.stored.Load(); used.MilliValue() < least {
		t.Errorf("the ResourceQuota of %s counts %s of at least %dm", q.namespace, used.String(), least)
	}
}

// counts returns the number of times that the quota was written; its conflicts are not known.
func (q resourceQuota) counts(ctx context.Context, t *testing.T) map[string]int {
	t.Helper()
	n, err := cluster.Writes(ctx, "/registry/resourcequotas/"+q.namespace+"/all")
	stored(t, err)
	return map[string]int{written: n}
}
