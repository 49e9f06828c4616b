package colocation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	resourcev1 "k8s.io/api/resource/v1"

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
	settings := ledger.Options{Tree: q.tree, Counting: counting(gates), LabelOnly: q.labelOnly, Expiry: o.quotaExpiry, Grants: gates.On(api.GateQuotaGrants), Log: log}
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
		now, err := q.now() // before the tree, so that no change is missed
		if err != nil {
			return nil, err
		}
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
