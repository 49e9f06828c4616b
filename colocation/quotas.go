package colocation

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/validators"
	"usher.dev/usher/server/suite"
)

// quotas is the state of elastic quotas beyond the snapshot of the cluster: what this replica has admitted and not
// observed yet. It outlives a change of the policy.
type quotas struct {
	cluster   *cluster.Cluster
	pending   *rules.Pending
	ledger    *ledger.Ledger // nil unless quotas are evaluated
	status    *statusWriter  // nil unless they are evaluated for an API server
	labelOnly bool
	watched   bool // the cluster is an API server, where other replicas admit quotas too

	exists func(ctx context.Context, name string) (bool, error) // asks the API server for a quota; nil: it cannot be asked
	asking atomic.Int32                                         // the questions under way
	asked  atomic.Int64                                         // all questions so far

	stop  context.CancelFunc // of the ledger; nil unless it runs
	ended chan struct{}      // closed when the ledger has ended
}

func newQuotas(e suite.Env, o suite.Opening) *quotas {
	q := &quotas{cluster: e.Cluster, pending: rules.NewPending(time.Now), labelOnly: e.Gates.On(api.GateDisableDefaultQuota), watched: o.Source == "api"}
	if q.watched {
		q.exists = func(ctx context.Context, name string) (bool, error) {
			return q.cluster.Exists(ctx, api.CollectionElasticQuotas, name)
		}
	}
	if !evaluatesQuotas(o.Served) {
		return q
	}
	settings := ledger.Options{Tree: q.tree, Counting: quota.CountingOf(e.Gates), LabelOnly: q.labelOnly,
		Expiry: e.Options.(*options).quotaExpiry, Log: o.Log}
	if q.watched {
		store := q.records()
		settings.Store, q.status = store, newStatusWriter(store, q.statuses, o.Log)
	}
	q.ledger = ledger.New(settings)
	return q
}

// records returns the store on the API server.
func (q *quotas) records() collections.Records { return collections.Records{Cluster: q.cluster} }

// evaluatesQuotas reports whether a served route has the step evaluate-quota, which needs the ledger.
func evaluatesQuotas(served []admit.Route) bool {
	return slices.ContainsFunc(served, func(r admit.Route) bool {
		return slices.ContainsFunc(r.Chain.Steps(), func(s admit.Step) bool { return s.Name == "evaluate-quota" })
	})
}

// tree returns the stored quotas; it waits up to maxAwait for a quota named awaited. It is ledger.Options.Tree.
func (q *quotas) tree(ctx context.Context, awaited string) (*quota.Tree, error) {
	return q.await(ctx, awaited, q.stored)
}

func (q *quotas) stored() (*quota.Tree, error) { return collections.TreeOf(q.cluster.Now()) }

// run maintains the records and the status of the quotas, and with childRequest their annotations, until ctx ends.
func (q *quotas) run(ctx context.Context, childRequest bool) {
	if q.ledger == nil {
		return
	}
	running, stop := context.WithCancel(ctx)
	q.stop, q.ended = stop, make(chan struct{})
	go func() {
		defer close(q.ended)
		q.ledger.Run(running)
	}()
	if q.status != nil {
		go q.status.run(ctx)
	}
	if childRequest {
		go q.ledger.KeepChildRequests(ctx, 2*time.Second, q.records().WriteChildRequest)
	}
}

// end ends the ledger, and waits until it has given back its grants or ctx ends: other replicas would have to count them until
// all pods that may have been admitted are known to be stored.
func (q *quotas) end(ctx context.Context) {
	if q.stop == nil {
		return
	}
	q.stop()
	select {
	case <-q.ended:
	case <-ctx.Done():
	}
}

// evaluating returns the ledger; nil if quotas are not evaluated.
func (q *quotas) evaluating() validators.Ledger {
	if q == nil || q.ledger == nil {
		return nil
	}
	return q.ledger
}

// announce returns the function that announces a change of a quota to all who admit pods; nil if quotas are not
// evaluated.
func (q *quotas) announce() func(context.Context, rules.Change, string) error {
	if q == nil || q.ledger == nil {
		return nil
	}
	return func(ctx context.Context, c rules.Change, from string) error {
		return q.ledger.Announce(ctx, ledger.QuotaChange{Old: c.Old, New: c.New, From: from})
	}
}

// moving returns ledger.Moving; nil if quotas are not evaluated.
func (q *quotas) moving() func(record, version string) string {
	if q == nil || q.ledger == nil {
		return nil
	}
	return ledger.Moving
}

// pendingChanges returns the changes of quotas that have been admitted and not observed yet; nil while routes are only listed.
func (q *quotas) pendingChanges() *rules.Pending {
	if q == nil {
		return nil
	}
	return q.pending
}
