package colocation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/validators"
)

// quotas is the state of elastic quotas beyond the snapshot of the cluster: what this replica has admitted and not
// observed yet. It outlives a change of the policy.
type quotas struct {
	cluster   atomic.Pointer[cluster.Cluster] // nil until it is opened
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

func newQuotas(o options, source string, gates gate.Set, evaluated bool, log logrus.FieldLogger) *quotas {
	q := &quotas{pending: rules.NewPending(time.Now), labelOnly: gates.On(api.GateDisableDefaultQuota), watched: source == "api"}
	if q.watched {
		q.exists = func(ctx context.Context, name string) (bool, error) {
			return q.cluster.Load().Exists(ctx, api.CollectionElasticQuotas, name)
		}
	}
	if !evaluated {
		return q
	}
	settings := ledger.Options{Tree: q.tree, Counting: counting(gates), LabelOnly: q.labelOnly, Expiry: o.quotaExpiry, Log: log}
	if q.watched {
		store := q.records()
		settings.Store, q.status = store, newStatusWriter(store, q.standings, log)
	}
	q.ledger = ledger.New(settings)
	return q
}

// records returns the store on the API server, for which the cluster must be open.
func (q *quotas) records() collections.Records { return collections.Records{Cluster: q.cluster.Load} }

// counting returns what pods are charged for under the given gates.
func counting(gates gate.Set) quota.Counting {
	return quota.Counting{
		IgnoreOverhead: gates.On(api.GateElasticQuotaIgnorePodOverhead),
		Allocated:      gates.On(api.GateQuotaByAllocatedResources),
		Devices:        gates.On(api.GateQuotaByDeviceClasses),
		Replace:        gates.On(api.GateElasticQuotaEvaluationTransformPod) && gates.On(api.GateReplaceResourcesTransformer),
	}
}

// evaluatesQuotas reports whether a served route has the step evaluate-quota, which needs the ledger.
func evaluatesQuotas(served []admit.Route) bool {
	return slices.ContainsFunc(served, func(r admit.Route) bool {
		return slices.ContainsFunc(r.Chain.Steps(), func(s admit.Step) bool { return s.Name == "evaluate-quota" })
	})
}

// now returns the current snapshot of the cluster. The error wraps admit.ErrNotReady until the cluster is open.
func (q *quotas) now() (cluster.Snapshot, error) {
	c := q.cluster.Load()
	if c == nil {
		return cluster.Snapshot{}, fmt.Errorf("the cluster is not open: %w", admit.ErrNotReady)
	}
	return c.Now(), nil
}

// tree returns the stored quotas; it waits up to maxAwait for a quota named awaited. It is ledger.Options.Tree.
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

// ledger returns nil if quotas are not evaluated.
func (s state) ledger() validators.Ledger {
	if s.quotas == nil || s.quotas.ledger == nil {
		return nil
	}
	return s.quotas.ledger
}

// announce returns the function that announces a change of a quota to all who admit pods; nil if quotas are not
// evaluated.
func (s state) announce() func(context.Context, rules.Change, string) error {
	if s.quotas == nil || s.quotas.ledger == nil {
		return nil
	}
	return func(ctx context.Context, c rules.Change, from string) error {
		return s.quotas.ledger.Announce(ctx, ledger.QuotaChange{Old: c.Old, New: c.New, From: from})
	}
}

// moving returns ledger.Moving; nil if quotas are not evaluated.
func (s state) moving() func(record, version string) string {
	if s.quotas == nil || s.quotas.ledger == nil {
		return nil
	}
	return ledger.Moving
}

func (s state) pendingQuotas() *rules.Pending {
	if s.quotas == nil {
		return nil
	}
	return s.quotas.pending
}
