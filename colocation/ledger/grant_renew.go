package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// renew renews the grants of this replica in the record of a top quota, or gives them back if nothing was spent lately. If that
// fails, it is tried again later: what is not given back cannot be used by others.
func (l *Ledger) renew(top string) {
	tree, err := l.tree()
	if err != nil {
		return
	}
	q, ok := tree.Get(top)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grantUse)
	defer cancel()
	err = l.renewOnce(ctx, q)
	for i := 1; i < maxRenewals && overtaken(err) && ctx.Err() == nil; i++ {
		l.records.awaitTurn(ctx, keyOf(q), time.Now().Add(maxTurn))
		err = l.renewOnce(ctx, q)
	}
	switch {
	case err == nil, errors.Is(err, ErrGone):
	case overtaken(err), lags(err):
		l.grants.renewLater(keyOf(q), grantUse/20)
	default:
		l.grants.renewLater(keyOf(q), grantUse)
	}
}

// maxRenewals bounds the attempts to renew the grants, because pods may wait.
const maxRenewals = 2

// overtaken reports whether a write must be planned again.
func overtaken(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, errWaited) }

// renewOnce writes the record of a top quota if the grants of this replica there are due.
func (l *Ledger) renewOnce(ctx context.Context, top *quota.Quota) error {
	v := view{reached: l.objects.reached()} // before the tree, which may then be newer
	tree, err := l.tree()
	if err != nil {
		return err
	}
	object, known := l.objects.get(keyOf(top))
	if !known {
		return ErrGone
	}
	v.tree, v.top, v.misplaced = tree, object, l.objects.misplacedBelow(tree, top.Name)
	v.now = l.options.Now() // after the record: what is found there is not older
	made, err := l.makePlan(v, nil)
	if err != nil || made.grants == nil || !made.grants.due {
		return err
	}
	return l.write(ctx, v, made)
}

// renewLater lets the grants in a record be renewed after some time, if there are any.
func (g *grants) renewLater(key types.NamespacedName, after time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.in[key]
	if in == nil || in.later || g.ended {
		return
	}
	in.later = true
	time.AfterFunc(after, func() {
		g.mu.Lock()
		in.later = false
		g.mu.Unlock()
		g.queues.renewSoon(key.Name)
	})
}

// giveBack gives back all grants before the process ends.
func (l *Ledger) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, grantUse)
	defer cancel()
	l.grants.mu.Lock()
	l.grants.ended = true
	keys := slices.Collect(maps.Keys(l.grants.in))
	l.grants.mu.Unlock()
	tree, err := l.tree()
	if err != nil {
		return
	}
	var all errgroup.Group
	all.SetLimit(maxGivingBack)
	for _, key := range keys {
		if q := tree.At(key); q != nil {
			all.Go(func() error { l.giveBackIn(ctx, q); return nil })
		}
	}
	_ = all.Wait()
}

// maxGivingBack is the number of records in which grants are given back at a time: one that cannot be written yet must not
// keep the others waiting.
const maxGivingBack = 16

// giveBackIn gives back the grants in one record, as often as others overtake that, also those of a write that is under way.
func (l *Ledger) giveBackIn(ctx context.Context, top *quota.Quota) {
	if unlock := l.grants.lock(ctx, keyOf(top)); unlock != nil {
		unlock()
	}
	for err := l.renewOnce(ctx, top); ctx.Err() == nil && (overtaken(err) || lags(err)); err = l.renewOnce(ctx, top) {
		select {
		case <-l.objects.change():
		case <-time.After(grantUse / 100):
		case <-ctx.Done():
		}
	}
}
