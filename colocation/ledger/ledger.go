// Package ledger knows whether a pod fits into its quota and all above it, now, whoever else is being admitted at this moment, on whichever
// replica.
//
// What is used are the pods that this replica's watch has shown. What is reserved are pods that were admitted and may not have been shown to
// everybody: they stand in a record, an annotation of the tree's top quota, which is written before the answer and only if nobody else wrote
// in between. So all admissions into one tree are decided one after the other, with one write for all that wait. A reservation is dropped
// from the record when its pod was seen; the record then says how new a replica's picture of the pods must be to decide (record.Seen).
// docs/quota.md has the reasons.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// Options are what a ledger is made of.
type Options struct {
	// Tree returns the quotas as they are known now; it may wait a moment until they have the one of a name, if that is not empty: another
	// replica may just have let it in. The error wraps admit.ErrNotReady as long as they are not known.
	Tree func(ctx context.Context, awaited string) (*quota.Tree, error)
	// Store keeps the records; nil for memory, which one replica has alone.
	Store Store
	// Counting and LabelOnly (gate DisableDefaultQuota) say what pods count for, and where.
	Counting  quota.Counting
	LabelOnly bool
	// Expiry is how long room is held for a pod that does not appear: longer than the API server works on a request (60 s) and the replicas'
	// clocks and watches differ. Zero means DefaultExpiry.
	Expiry time.Duration
	// Replica tells this replica's reservations from others'; empty for a random one.
	Replica string
	// Now is the clock; nil for the real one.
	Now func() time.Time
	// Log gets what an operator should know; nil for nothing.
	Log logrus.FieldLogger
}

// DefaultExpiry is a minute for the request, the API server's default, and half a minute for clocks.
const DefaultExpiry = 90 * time.Second

// Ledger may be asked from many goroutines. Its followers must be told of all pods and quotas before it is right.
type Ledger struct {
	options  Options
	accounts *accounts
	objects  *objects
	counts   counters
	revoked  *revoked

	mu     sync.Mutex
	queues map[string]*queue // by the name of the top quota
}

// New makes a ledger.
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
	l := &Ledger{options: o, accounts: newAccounts(o), objects: newObjects(), revoked: newRevoked(o), queues: map[string]*queue{}}
	if o.Store == nil {
		l.options.Store = &memory{records: map[types.NamespacedName]Object{}}
	}
	return l
}

// Pods must be told what happens to the pods.
func (l *Ledger) Pods() Follower { return l.accounts }

// Shared reports whether the records are in a store that other replicas share.
func (l *Ledger) Shared() bool {
	_, alone := l.options.Store.(*memory)
	return !alone
}

// Quotas must be told what happens to the quota objects, unless the records are in memory.
func (l *Ledger) Quotas() Follower { return l.objects }

// Judge returns the verdict on a pod and remembers nothing.
func (l *Ledger) Judge(ctx context.Context, ask quota.Request) (quota.PodVerdict, error) {
	first, err := l.ask(ctx, ask)
	if err != nil || first.top == "" {
		return first.verdict, err
	}
	for top := first.top; ; {
		made, _, err := l.decide(ctx, top, []*candidate{first.candidate})
		if err != nil {
			return quota.PodVerdict{}, err
		}
		v := made.verdicts[0]
		if v.elsewhere == "" {
			return v.PodVerdict, v.err
		}
		top = v.elsewhere
	}
}

// Reserve returns the verdict on a pod and, if it fits, holds its room until it is seen, or does not come. Nothing is held for a caller that has
// gone before the answer. An error wraps admit.ErrNotReady where a repetition helps.
func (l *Ledger) Reserve(ctx context.Context, ask quota.Request) (quota.PodVerdict, error) {
	first, err := l.ask(ctx, ask)
	if err != nil || first.top == "" {
		return first.verdict, err
	}
	w := &waiter{ctx: ctx, candidate: first.candidate, answer: make(chan verdict, 1)}
	l.join(first.top, w)
	select {
	case v := <-w.answer:
		return v.PodVerdict, v.err
	case <-ctx.Done():
		if w.leave() {
			return quota.PodVerdict{}, busy(context.Cause(ctx))
		}
		v := <-w.answer // it came at the same moment
		return v.PodVerdict, v.err
	}
}

// busy words what a repetition may help with.
func busy(cause error) error {
	return fmt.Errorf("the quota ledger could not decide in time: %w: %w", cause, admit.ErrNotReady)
}

// ask reads a pod and places it in the tree as it is known now, once that has the quota that the pod names. The top that comes out says which
// decisions the pod lines up with; the decision itself places it anew.
func (l *Ledger) ask(ctx context.Context, r quota.Request) (placement, error) {
	tree, err := l.options.Tree(ctx, r.Key.Label)
	if err != nil {
		return placement{}, fmt.Errorf("reading the elastic quotas: %w", err)
	}
	if b := tree.Bind(r.Key, l.options.LabelOnly); !limits(b) {
		return placement{verdict: quota.PodVerdict{Binding: b}}, nil
	}
	return l.place(tree, l.read(r)), nil
}

// tree returns the quotas as they are known now.
func (l *Ledger) tree() (*quota.Tree, error) { return l.options.Tree(context.Background(), "") }

// decide makes a plan from what is known now. If this replica has not seen what it must, it waits a little for it.
func (l *Ledger) decide(ctx context.Context, top string, candidates []*candidate) (plan, view, error) {
	ctx, cancel := context.WithTimeout(ctx, maxBehind)
	defer cancel()
	for {
		changed := l.accounts.change()
		made, v, err := l.attempt(ctx, top, candidates)
		if err == nil && made.refused && l.confirmExpired(ctx, made.expired) {
			continue
		}
		if !errors.Is(err, errBehind) {
			return made, v, err
		}
		select {
		case <-changed:
		case <-time.After(maxBehind / 20): // a change of the tree is not announced
		case <-ctx.Done():
			return made, v, err
		}
	}
}

// maxBehind is how long a decision waits for pods that another replica has seen. A watch that is later than that is not merely slow.
const maxBehind = time.Second

// attempt makes a plan. The candidates are bound, charged and judged in one tree.
func (l *Ledger) attempt(ctx context.Context, top string, candidates []*candidate) (plan, view, error) {
	tree, err := l.tree()
	if err != nil {
		return plan{}, view{}, err
	}
	placed, here := make([]placement, len(candidates)), false
	for i, c := range candidates {
		placed[i] = l.place(tree, c)
		here = here || placed[i].top == top
	}
	if !here { // the top may be none any more
		return unjudged(placed), view{}, nil
	}
	v, err := l.view(ctx, tree, top)
	if err != nil {
		return plan{}, v, err
	}
	made, err := l.plan(v, placed)
	return made, v, err
}

// view gathers what a decision about the tree below a top follows from. The object is the newest that this replica knows; if it is not the
// newest there is, the write that follows will not happen.
func (l *Ledger) view(ctx context.Context, tree *quota.Tree, top string) (view, error) {
	q, _ := tree.Get(top)
	object, known := l.objects.get(keyOf(q))
	if !known {
		var err error
		if object, err = l.options.Store.Read(ctx, keyOf(q)); err != nil {
			return view{}, busy(err)
		}
		l.objects.learn(object)
	}
	if object.Quota == nil {
		object.Quota = q
	}
	if object.Quota.Parent != q.Parent {
		return view{}, errBehind // in truth it may not be the top any more, so that others write elsewhere
	}
	return view{tree: tree, top: object, misplaced: l.objects.misplacedBelow(tree, top), now: l.options.Now()}, nil
}
