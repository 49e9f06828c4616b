package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/cluster"
	"usher.dev/usher/quota"
	"usher.dev/usher/quota/ledger"
	"usher.dev/usher/validators"
)

// quotas are what usher remembers of elastic quotas beside the snapshot of the cluster: what it has admitted and not seen yet. They outlive
// a change of the policy.
type quotas struct {
	cluster   atomic.Pointer[cluster.Cluster] // nil until it is open
	pending   *quota.Pending
	ledger    *ledger.Ledger // nil unless pods are held to their quotas
	labelOnly bool
	watched   bool // the cluster is an API server, where other replicas let quotas in
}

func newQuotas(o *clusterOptions, open gates, log logrus.FieldLogger) *quotas {
	q := &quotas{pending: quota.NewPending(time.Now), labelOnly: open.on("DisableDefaultQuota"), watched: o.source == "api"}
	if !open.on("EnableQuotaAdmission") {
		return q
	}
	options := ledger.Options{Tree: q.stored, Counting: counting(open), LabelOnly: q.labelOnly, Expiry: o.quotaExpiry, Log: log}
	if o.source == "api" {
		options.Store = records{q}
	}
	q.ledger = ledger.New(options)
	return q
}

// counting is how pods are counted.
func counting(open gates) quota.Counting {
	return quota.Counting{
		IgnoreOverhead: open.on("ElasticQuotaIgnorePodOverhead"),
		Replace:        open.on("ElasticQuotaEvaluationTransformPod") && open.on("ReplaceResourcesTransformer"),
	}
}

// follow lets the ledger see what the cluster sees.
func (q *quotas) follow(o *cluster.Options) {
	if q.ledger != nil {
		o.Follow = map[cluster.Kind]ledger.Follower{cluster.PodRequests: q.ledger.Pods()}
		if q.ledger.Shared() {
			o.Follow[cluster.ElasticQuotas] = q.ledger.Quotas()
		}
	}
}

// stored are the quotas that the cluster shows.
func (q *quotas) stored() (*quota.Tree, error) {
	known := q.cluster.Load()
	if known == nil {
		return nil, fmt.Errorf("the cluster is not open: %w", admit.ErrNotReady)
	}
	return known.Now().QuotaTree()
}

// tree are the quotas that the cluster shows, with those that this replica has just admitted.
func (q *quotas) tree() (*quota.Tree, error) { return q.pending.Over(q.stored) }

// maxAwait is how long a quota is waited for that somebody names and the watch does not show: a watch is milliseconds late.
const maxAwait = 300 * time.Millisecond

// await waits a moment until a tree has a quota. What files do not hold does not come.
func (q *quotas) await(ctx context.Context, name string, tree func() (*quota.Tree, error)) {
	if !q.watched || name == "" || api.ReservedQuota(name) {
		return
	}
	for end := time.Now().Add(maxAwait); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		now, err := tree()
		if err != nil {
			return
		}
		if _, known := now.Get(name); known {
			return
		}
	}
}

// storedWithPods are the quotas for those who ask podsOf too.
func (q *quotas) storedWithPods() (*quota.Tree, error) {
	tree, err := q.stored()
	if err == nil {
		_, err = q.cluster.Load().Now().CountedPods()
	}
	return tree, err
}

// podsOf are the pods that count against a quota: namespace/name, sorted, and how many. Every pod is looked at: only the rare question is for
// it. Where pods are not known, storedWithPods said so.
func (q *quotas) podsOf(name string) (found []string, total int) {
	tree, err := q.stored()
	if err != nil {
		return nil, 0
	}
	pods, err := q.cluster.Load().Now().CountedPods()
	if err != nil {
		return nil, 0
	}
	for key, pod := range pods {
		if !pod.Ended && tree.Bind(pod.Holder(), q.labelOnly).Name == name {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found, len(found)
}

// run keeps the records tidy, and the numbers of the quotas if that was asked.
func (q *quotas) run(ctx context.Context, childRequest bool) {
	if q.ledger == nil {
		return
	}
	go q.ledger.Run(ctx)
	if childRequest {
		go q.ledger.KeepChildRequests(ctx, 2*time.Second, q.cluster.Load().WriteChildRequest)
	}
}

// The questions about quotas have answers only where there is a cluster, not where routes are merely listed.

func (s state) quotaTree(ctx context.Context, awaited string) (*quota.Tree, error) {
	s.awaitQuota(ctx, awaited)
	return s.quotas.tree()
}

func (s state) awaitQuota(ctx context.Context, name string) { s.quotas.await(ctx, name, s.quotas.tree) }

func (s state) awaitStored(ctx context.Context, name string) {
	s.quotas.await(ctx, name, s.quotas.stored)
}

// podQuotas are the quotas by which pods are judged: those that are stored. One that was admitted a moment ago may never be.
func (s state) podQuotas() (*quota.Tree, error) { return s.quotas.stored() }

func (s state) storedQuotas() (*quota.Tree, error) { return s.quotas.storedWithPods() }

func (s state) quotaProfiles() ([]*api.ElasticQuotaProfile, error) { return s.Now().QuotaProfiles() }

func (s state) podsOf(name string) ([]string, int) { return s.quotas.podsOf(name) }

func (s state) namespaceDeleting(name string) (bool, error) { return s.Now().NamespaceDeleting(name) }

// ledger is nil where pods are not held to their quotas.
func (s state) ledger() validators.Ledger {
	if s.quotas == nil || s.quotas.ledger == nil {
		return nil
	}
	return s.quotas.ledger
}

func (s state) pendingQuotas() *quota.Pending {
	if s.quotas == nil {
		return nil
	}
	return s.quotas.pending
}

// records is the ledger's store on the API server, which the cluster knows once it is open.
type records struct{ *quotas }

// Read is ledger.Store's.
func (r records) Read(ctx context.Context, key types.NamespacedName) (ledger.Object, error) {
	return r.cluster.Load().Records().Read(ctx, key)
}

// Write is ledger.Store's.
func (r records) Write(ctx context.Context, key types.NamespacedName, version, record string) (ledger.Object, error) {
	return r.cluster.Load().Records().Write(ctx, key, version, record)
}

// Pod is ledger.Store's.
func (r records) Pod(ctx context.Context, key types.NamespacedName) (string, error) {
	return r.cluster.Load().Records().Pod(ctx, key)
}
