// Package ledger decides whether a pod fits into its quota and all quotas above it, while other pods are being admitted
// at the same time on any replica.
//
// Used is the total of the pods that this replica has observed through its watch. Reserved is the total of the pods
// that were admitted but may not have been observed by every replica yet. Reservations are stored in a record, an
// annotation of the tree's top quota. The record is written before the answer is sent, and only if no other writer has
// changed the object since it was read. Admissions into one tree are therefore serialized; all waiting pods share one
// write. A reservation is dropped once its pod has been observed, and record.Seen then says up to which resourceVersion
// a replica must have observed the pods before it may decide. Where many pods come, a replica also reserves room for the next
// ones and admits them without a write: see grants.go. docs/quota.md gives the reasons.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// Options configures a Ledger.
type Options struct {
	// Tree returns the current quotas. If awaited is not empty, it may wait briefly for a quota of that name, because
	// another replica may just have admitted it. The error wraps admit.ErrNotReady until the quotas are known.
	Tree func(ctx context.Context, awaited string) (*quota.Tree, error)
	// Store holds the records; nil keeps them in memory, for a single replica.
	Store Store
	// Counting and LabelOnly (gate DisableDefaultQuota) determine what pods are charged for, and to which quota.
	Counting  quota.Counting
	LabelOnly bool
	// Expiry is the time for which a reservation is held for a pod that does not appear. It must be longer than the API
	// server's request timeout (60 s) plus the differences between the clocks and watches of the replicas. Zero means
	// DefaultExpiry.
	Expiry time.Duration
	// Replica distinguishes the reservations of this process from others, also of those before it; empty means a random name.
	Replica string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives messages for operators; nil discards them.
	Log logrus.FieldLogger
}

// DefaultExpiry is the API server's default request timeout of one minute plus 30 seconds for clock differences.
const DefaultExpiry = 90 * time.Second

// Ledger is safe for concurrent use. Its followers must receive all pods and quotas; until then it decides nothing.
type Ledger struct {
	options  Options
	accounts *accounts
	objects  *objects
	records  *recordStore
	counts   counters
	pending  *pending
	revoked  *revoked
	revivals *revivals
	found    *found // announced changes
	grants   *grants
	queues   *queues

	announcing chan struct{} // has a value while a change is announced
}

// New returns a Ledger.
func New(o Options) *Ledger {
	if o.Expiry == 0 {
		o.Expiry = DefaultExpiry
	}
	if o.Replica == "" {
		o.Replica = strconv.FormatUint(rand.Uint64N(36*36*36*36*36), 36)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		o.Log = quiet
	}
	alone := o.Store == nil
	if alone {
		o.Store = &memStore{records: map[types.NamespacedName]Object{}}
	}
	l := &Ledger{options: o, accounts: newAccounts(o), objects: newObjects(), revoked: newRevoked(o), announcing: make(chan struct{}, 1)}
	l.queues = &queues{serve: l.serve, renew: l.renew, of: map[string]*queue{}}
	l.records = &recordStore{options: &l.options, objects: l.objects, counts: &l.counts}
	l.found = &found{options: &l.options, objects: l.objects, all: map[changeID]foundChange{}}
	l.grants = &grants{options: &l.options, objects: l.objects, queues: l.queues, counts: &l.counts,
		in: map[types.NamespacedName]*granted{}, found: map[reservationID]foundGrant{}, until: map[types.NamespacedName]time.Time{}}
	l.pending = &pending{options: &l.options, accounts: l.accounts, grants: l.grants, revoked: l.revoked}
	l.revivals = newRevivals(l.accounts)
	if !alone {
		l.accounts.onRevival, l.objects.onRecord = l.noteRevived, l.revivals.admit
		l.objects.onRecall = func(top string) { go l.queues.renewSoon(top) }
	}
	return l
}

// Pods returns the follower that must receive every change of the pods.
func (l *Ledger) Pods() Follower { return l.accounts }

// Shared reports whether the records are in a store that other replicas share.
func (l *Ledger) Shared() bool { return l.options.shared() }

func (o *Options) shared() bool {
	_, alone := o.Store.(*memStore)
	return !alone
}

// Quotas returns the follower that must receive every change of the quota objects, unless the records are in memory.
func (l *Ledger) Quotas() Follower { return l.objects }

// Judge returns the verdict on a pod and reserves nothing.
func (l *Ledger) Judge(ctx context.Context, req quota.Request) (quota.PodVerdict, error) {
	first, err := l.locate(ctx, req)
	if err != nil || first.top == "" {
		return first.verdict, err
	}
	for top := first.top; ; {
		made, _, err := l.decide(ctx, top, []*candidate{first.candidate})
		if err != nil {
			return quota.PodVerdict{}, err
		}
		v := made.verdicts[0]
		if v.elsewhere == "" || v.recalled { // nobody gives back a grant for a pod that is only judged
			return v.PodVerdict, v.err
		}
		if top = v.elsewhere; v.later && !l.objects.awaitChange(ctx) {
			return quota.PodVerdict{}, errChanging
		}
	}
}

// Reserve returns the verdict on a pod. If the pod fits, its request is reserved until the pod is observed or the
// reservation expires. Nothing is reserved for a caller that has gone before the answer. The error wraps
// admit.ErrNotReady if a retry may help.
func (l *Ledger) Reserve(ctx context.Context, req quota.Request) (quota.PodVerdict, error) {
	first, err := l.locate(ctx, req)
	if err != nil || first.top == "" {
		return first.verdict, err
	}
	if l.grants.spend(ctx, &first) {
		return first.verdict, nil
	}
	w := &waiter{ctx: ctx, candidate: first.candidate, answer: make(chan verdict, 1)}
	l.queues.enqueue(first.top, w)
	select {
	case v := <-w.answer:
		return v.PodVerdict, v.err
	case <-ctx.Done():
		if w.abandon() {
			return quota.PodVerdict{}, busy(context.Cause(ctx))
		}
		v := <-w.answer // answered at the same moment
		return v.PodVerdict, v.err
	}
}

// busy wraps an error that a retry may resolve.
func busy(cause error) error {
	return fmt.Errorf("the quota ledger could not decide in time: %w: %w", cause, admit.ErrNotReady)
}

// locate reads a pod and places it in the current tree, once that has the quota that the pod names. The resulting top
// determines the queue; the decision itself places the pod again.
func (l *Ledger) locate(ctx context.Context, r quota.Request) (placement, error) {
	tree, err := l.options.Tree(ctx, r.Key.Label)
	if err != nil {
		return placement{}, fmt.Errorf("reading the elastic quotas: %w", err)
	}
	if b := tree.Bind(r.Key, l.options.LabelOnly); !limits(b) {
		return placement{verdict: quota.PodVerdict{Binding: b}}, nil
	}
	return l.place(tree, l.read(r)), nil
}

// tree returns the current quotas.
func (l *Ledger) tree() (*quota.Tree, error) { return l.options.Tree(context.Background(), "") }

// decide makes a plan from the current state. If this replica is behind the record, it waits up to maxBehind.
func (l *Ledger) decide(ctx context.Context, top string, candidates []*candidate) (plan, view, error) {
	ctx, cancel := context.WithTimeout(ctx, maxBehind)
	defer cancel()
	for waited := false; ; waited = true {
		pods, quotas := l.accounts.change(), l.objects.change()
		made, v, err := l.attempt(ctx, top, candidates)
		if err == nil && made.refused && l.pending.confirm(ctx, made.expired) {
			continue
		}
		if err == nil && made.waits && l.found.ask(ctx, made.doubtful) {
			continue
		}
		if !lags(err) {
			return made, v, err
		}
		changed, count := pods, &l.counts.waitsForPods
		if errors.Is(err, errOldTree) {
			changed, count = quotas, &l.counts.waitsForTree
		}
		if !waited {
			count.Add(1)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return made, v, err
		}
	}
}

// maxBehind bounds the wait of a decision for pods that another replica has already observed. A watch that lags more is
// not just slow.
const maxBehind = time.Second

// attempt makes a plan. All candidates are bound, charged and judged in the same tree.
func (l *Ledger) attempt(ctx context.Context, top string, candidates []*candidate) (plan, view, error) {
	reached := l.objects.reached() // before the tree, which may then be newer
	tree, err := l.tree()
	if err != nil {
		return plan{}, view{}, err
	}
	placed, here := make([]placement, len(candidates)), false
	for i, c := range candidates {
		placed[i] = l.place(tree, c)
		here = here || placed[i].top == top
	}
	if !here { // top may have ceased to be a top
		return unjudged(placed), view{}, nil
	}
	v, err := l.view(ctx, tree, top)
	if err != nil {
		return plan{}, v, err
	}
	v.reached = reached
	made, err := l.makePlan(v, placed)
	return made, v, err
}

// view collects the input of a decision about the tree below top. The object is the newest that this replica knows; if
// a newer one exists, the write that follows fails with a conflict.
func (l *Ledger) view(ctx context.Context, tree *quota.Tree, top string) (view, error) {
	q, _ := tree.Get(top)
	object, err := l.records.object(ctx, q)
	if err != nil {
		return view{}, err
	}
	if object.Quota == nil {
		object.Quota = q
	}
	if !samePlace(object.Quota, q) {
		return view{}, errOldTree // other replicas may write elsewhere, or count other pods here
	}
	return view{tree: tree, top: object, misplaced: l.objects.misplacedBelow(tree, top), now: l.options.Now()}, nil
}
