package colocation

import (
	"context"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// pendingTree returns the stored quotas with the changes that this replica has just admitted.
func (q questions) pendingTree() (*quota.Tree, error) { return q.quotas.pending.Over(q.QuotaTree) }

// awaitedTree is pendingTree that waits up to maxAwait for a quota named awaited.
func (q questions) awaitedTree(ctx context.Context, awaited string) (*quota.Tree, error) {
	return q.quotas.await(ctx, awaited, q.pendingTree)
}

// storedTree returns the stored quotas for a caller that also asks about their pods. It waits up to maxAwait until a
// quota named awaited is stored or has just been admitted.
func (q questions) storedTree(ctx context.Context, awaited string) (*quota.Tree, error) {
	if awaited != "" {
		if _, err := q.awaitedTree(ctx, awaited); err != nil {
			return nil, err
		}
	}
	return q.QuotasWithPods()
}

// boundTree returns the stored quotas; it waits up to maxAwait for a quota named awaited.
func (q questions) boundTree(ctx context.Context, awaited string) (*quota.Tree, error) {
	return q.quotas.await(ctx, awaited, q.QuotaTree)
}

// awaitedTemplate returns the spec of the claims of a template; it waits up to maxAwait for a template that may just have been created.
func (q questions) awaitedTemplate(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaimSpec, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAwait)
	defer cancel()
	return q.ClaimTemplate(ctx, q.quotas.watched, namespace, name)
}

// hasNamespace reports whether there is a namespace with a name.
func (q questions) hasNamespace(name string) (bool, error) {
	_, known, err := q.NamedNamespace(name)
	return known, err
}

// podsOf returns the pods that belong to a quota, and their number.
func (q questions) podsOf(name string) ([]string, int) { return q.PodsOf(name, q.quotas.labelOnly) }

// maxAwait bounds the wait for a quota that a request names and the watch has not delivered. A watch lags by
// milliseconds.
const maxAwait = 300 * time.Millisecond

// maxAsking bounds the simultaneous questions for quotas to the API server.
const maxAsking = 4

// await returns a tree as soon as it has the named quota, or when the API server says that there is none, or when
// maxAwait or ctx is over. It does not wait for an empty name, nor when the cluster is read from files, where a missing
// quota will not appear.
func (q *quotas) await(ctx context.Context, name string, tree func() (*quota.Tree, error)) (*quota.Tree, error) {
	if !q.watched || name == "" || api.ReservedQuota(name) {
		return tree()
	}
	ctx, cancel := context.WithTimeout(ctx, maxAwait)
	defer cancel()
	for first := true; ; first = false {
		now := q.cluster.Now() // before the tree, so that no change is missed
		found, err := tree()
		if err != nil {
			return nil, err
		}
		if _, known := found.Get(name); known || first && q.missing(ctx, name) {
			return found, nil
		}
		select {
		case <-now.Changed():
		case <-ctx.Done():
			return found, nil
		}
	}
}

// missing reports that the API server has no quota of a name: what a watch has shown cannot say that. It is false if the
// API server cannot be asked, or does not answer in time.
func (q *quotas) missing(ctx context.Context, name string) bool {
	defer q.asking.Add(-1)
	if q.asking.Add(1) > maxAsking || q.exists == nil {
		return false
	}
	q.asked.Add(1)
	exists, err := q.exists(ctx, name)
	return err == nil && !exists
}
