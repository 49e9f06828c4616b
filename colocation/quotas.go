package colocation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/validators"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
)

// quotas are what usher remembers of elastic quotas beside the snapshot of the cluster: what it has admitted and not seen yet. They outlive
// a change of the policy.
type quotas struct {
	cluster   atomic.Pointer[cluster.Cluster] // nil until it is open
	pending   *rules.Pending
	ledger    *ledger.Ledger // nil unless pods are held to their quotas
	labelOnly bool
	watched   bool // the cluster is an API server, where other replicas let quotas in
}

func newQuotas(o options, source string, open gate.Set, held bool, log logrus.FieldLogger) *quotas {
	q := &quotas{pending: rules.NewPending(time.Now), labelOnly: open.On(api.GateDisableDefaultQuota), watched: source == "api"}
	if !held {
		return q
	}
	settings := ledger.Options{Tree: q.tree, Counting: counting(open), LabelOnly: q.labelOnly, Expiry: o.quotaExpiry, Log: log}
	if source == "api" {
		settings.Store = records{q}
	}
	q.ledger = ledger.New(settings)
	return q
}

// counting is how pods are counted.
func counting(open gate.Set) quota.Counting {
	return quota.Counting{
		IgnoreOverhead: open.On(api.GateElasticQuotaIgnorePodOverhead),
		Replace:        open.On(api.GateElasticQuotaEvaluationTransformPod) && open.On(api.GateReplaceResourcesTransformer),
	}
}

// holdsPods reports whether pods are held to their quotas: by step evaluate-quota, which asks the ledger.
func holdsPods(served []handlers.Route) bool {
	return slices.ContainsFunc(served, func(r handlers.Route) bool {
		return slices.ContainsFunc(r.Chain.Steps(), func(s admit.Step) bool { return s.Name == "evaluate-quota" })
	})
}

// now is the cluster as it is known now. The error wraps admit.ErrNotReady until it is open.
func (q *quotas) now() (cluster.Snapshot, error) {
	known := q.cluster.Load()
	if known == nil {
		return cluster.Snapshot{}, fmt.Errorf("the cluster is not open: %w", admit.ErrNotReady)
	}
	return known.Now(), nil
}

// tree returns the quotas that the cluster shows, once they have the one that is awaited, if it comes in time. For the ledger.
func (q *quotas) tree(ctx context.Context, awaited string) (*quota.Tree, error) {
	return q.await(ctx, awaited, q.stored)
}

func (q *quotas) stored() (*quota.Tree, error) {
	now, err := q.now()
	if err != nil {
		return nil, err
	}
	return collections.TreeOf(now)
}

// maxAwait is how long a quota is waited for that somebody names and the watch does not show: a watch is milliseconds late.
const maxAwait = 300 * time.Millisecond

// await returns a tree, once that has a quota, or when the time or ctx is over. What files do not hold does not come, and what has no name is
// not waited for.
func (q *quotas) await(ctx context.Context, name string, tree func() (*quota.Tree, error)) (*quota.Tree, error) {
	if !q.watched || name == "" || api.ReservedQuota(name) {
		return tree()
	}
	ctx, cancel := context.WithTimeout(ctx, maxAwait)
	defer cancel()
	for {
		now, err := q.now() // before the tree, so that no change is missed
		if err != nil {
			return nil, err
		}
		found, err := tree()
		if err != nil {
			return nil, err
		}
		if _, known := found.Get(name); known {
			return found, nil
		}
		select {
		case <-now.Changed():
		case <-ctx.Done():
			return found, nil
		}
	}
}

// run keeps the records tidy, and the numbers of the quotas if that was asked.
func (q *quotas) run(ctx context.Context, childRequest bool) {
	if q.ledger == nil {
		return
	}
	go q.ledger.Run(ctx)
	if childRequest {
		go q.ledger.KeepChildRequests(ctx, 2*time.Second, collections.Records{Cluster: q.cluster.Load()}.WriteChildRequest)
	}
}

// pendingTree are the quotas that the cluster shows, with those that this replica has just admitted.
func (q questions) pendingTree() (*quota.Tree, error) { return q.quotas.pending.Over(q.QuotaTree) }

// awaitedTree is pendingTree, once it has the quota that is awaited, if that comes in time.
func (q questions) awaitedTree(ctx context.Context, awaited string) (*quota.Tree, error) {
	return q.quotas.await(ctx, awaited, q.pendingTree)
}

// storedTree are the quotas that the cluster shows, for a caller that asks about their pods too, once they or what this replica has just
// admitted have the one that is awaited, if that comes in time.
func (q questions) storedTree(ctx context.Context, awaited string) (*quota.Tree, error) {
	if awaited != "" {
		if _, err := q.awaitedTree(ctx, awaited); err != nil {
			return nil, err
		}
	}
	return q.QuotasWithPods()
}

// podsOf are the pods that count against a quota.
func (q questions) podsOf(name string) ([]string, int) { return q.PodsOf(name, q.quotas.labelOnly) }

// ledger is nil where pods are not held to their quotas.
func (s state) ledger() validators.Ledger {
	if s.quotas == nil || s.quotas.ledger == nil {
		return nil
	}
	return s.quotas.ledger
}

func (s state) pendingQuotas() *rules.Pending {
	if s.quotas == nil {
		return nil
	}
	return s.quotas.pending
}

// records is the ledger's store on the API server, which the cluster knows once it is open.
type records struct{ *quotas }

// Read is ledger.Store's.
func (r records) Read(ctx context.Context, key types.NamespacedName) (ledger.Object, error) {
	return collections.Records{Cluster: r.cluster.Load()}.Read(ctx, key)
}

// Write is ledger.Store's.
func (r records) Write(ctx context.Context, key types.NamespacedName, version, record string) (ledger.Object, error) {
	return collections.Records{Cluster: r.cluster.Load()}.Write(ctx, key, version, record)
}

// Pod is ledger.Store's.
func (r records) Pod(ctx context.Context, key types.NamespacedName) (string, error) {
	return collections.Records{Cluster: r.cluster.Load()}.Pod(ctx, key)
}
