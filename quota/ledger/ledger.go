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
	"usher.dev/usher/quota"
)

// Options are what a ledger is made of.
type Options struct {
	// Tree gives the quotas as they are known now; the error wraps admit.ErrNotReady as long as they are not.
	Tree func() (*quota.Tree, error)
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
	over     *answers

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
	l := &Ledger{options: o, accounts: newAccounts(o), objects: newObjects(), over: newAnswers(o), queues: map[string]*queue{}}
	if o.Store == nil {
		l.options.Store = &memory{records: map[types.NamespacedName]Object{}}
	}
	return l
}

// Pods must be told what happens to the pods.
func (l *Ledger) Pods() Follower { return l.accounts }

// Shared tells whether the records are in a store that other replicas share.
func (l *Ledger) Shared() bool {
	_, alone := l.options.Store.(*memory)
	return !alone
}

// Quotas must be told what happens to the quota objects, unless the records are in memory.
func (l *Ledger) Quotas() Follower { return l.objects }

// Judge gives the verdict on a pod, nil if it fits, and remembers nothing.
func (l *Ledger) Judge(ctx context.Context, ask quota.Ask) (*quota.Excess, error) {
	top, err := l.topOf(ask)
	if top == "" || err != nil {
		return nil, err
	}
	made, _, err := l.think(ctx, top, []quota.Ask{ask})
	if err != nil {
		return nil, err
	}
	return made.verdicts[0].excess, made.verdicts[0].err
}

// think makes a plan from what is known now. If this replica has not seen what it must, it waits a little for it.
func (l *Ledger) think(ctx context.Context, top string, asks []quota.Ask) (plan, moment, error) {
	ctx, cancel := context.WithTimeout(ctx, maxBehind)
	defer cancel()
	for {
		changed := l.accounts.change()
		var made plan
		m, err := l.moment(ctx, top)
		if err == nil {
			made, err = l.plan(m, asks)
		}
		if err == nil && made.refused && l.inquire(ctx, made.doubts) {
			continue
		}
		if !errors.Is(err, errBehind) {
			return made, m, err
		}
		select {
		case <-changed:
		case <-time.After(maxBehind / 20): // nobody tells that the tree has changed
		case <-ctx.Done():
			return made, m, err
		}
	}
}

// maxBehind is how long a decision waits for pods that another replica has seen. A watch that is later than that is not merely slow.
const maxBehind = time.Second

// Reserve gives the verdict on a pod and, if it fits, holds its room until it is seen, or does not come. Nothing is held for a caller who has
// gone before the answer. An error wraps admit.ErrNotReady where a repetition helps.
func (l *Ledger) Reserve(ctx context.Context, ask quota.Ask) (*quota.Excess, error) {
	top, err := l.topOf(ask)
	if top == "" || err != nil {
		return nil, err
	}
	w := &waiter{ctx: ctx, ask: ask, answer: make(chan verdict, 1)}
	l.join(top, w)
	select {
	case v := <-w.answer:
		return v.excess, v.err
	case <-ctx.Done():
		if w.leave() {
			return nil, busy(context.Cause(ctx))
		}
		v := <-w.answer // it came at the same moment
		return v.excess, v.err
	}
}

// busy words what a repetition may help with.
func busy(cause error) error {
	return fmt.Errorf("the quota ledger could not decide in time: %w: %w", cause, admit.ErrNotReady)
}

// topOf is the name of the quota whose object has the record that an ask needs; empty if nothing on its way there judges it.
func (l *Ledger) topOf(ask quota.Ask) (string, error) {
	tree, err := l.options.Tree()
	if err != nil {
		return "", err
	}
	path := tree.Path(ask.Binding.Name)
	if len(path) == 0 || !counts(ask, tree) {
		return "", nil
	}
	return path[len(path)-1].Name, nil
}

// errMoved: the quota is not the top of its tree any more.
var errMoved = fmt.Errorf("the quota has got a parent: %w", admit.ErrNotReady)

// moment gathers what a decision about a tree follows from. The object is the newest that this replica knows; if it is not the newest there
// is, the write that follows will not happen.
func (l *Ledger) moment(ctx context.Context, top string) (moment, error) {
	tree, err := l.options.Tree()
	if err != nil {
		return moment{}, err
	}
	path := tree.Path(top)
	if len(path) == 0 {
		return moment{}, fmt.Errorf("quota %s: %w: %w", top, ErrGone, admit.ErrNotReady)
	}
	q := path[len(path)-1]
	if q.Name != top {
		return moment{}, errMoved
	}
	object, known := l.objects.get(keyOf(q))
	if !known {
		if object, err = l.options.Store.Read(ctx, keyOf(q)); err != nil {
			return moment{}, busy(err)
		}
		l.objects.learn(object)
	}
	if object.Quota == nil {
		object.Quota = q
	}
	if object.Quota.Parent != q.Parent {
		return moment{}, errBehind // in truth it may not be the top any more, so that others write elsewhere
	}
	return moment{tree: tree, top: object, strays: l.objects.below(tree, top), now: l.options.Now()}, nil
}
