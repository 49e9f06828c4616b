package ledger

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// pending decides which reservations still count, by what this replica has observed, the time and the store.
type pending struct {
	options  *Options
	accounts *accounts
	grants   *grants
	revoked  *revoked
}

// dropSeen returns the record without the reservations that are no longer pending, and the expired ones among those
// that it keeps. It raises record.Seen for the dropped ones: a replica that has not observed their pods would count
// neither the pod nor the reservation. An expired reservation remains until confirm knows that its pod will not
// be created.
func (p *pending) dropSeen(a *accounts, v view, r record) (next record, expired []reservation) {
	next.Seen = r.Seen
	for i := range r.Pods {
		one := &r.Pods[i]
		stands, since := a.pending(one)
		if seen, gone := p.revoked.get(one); gone || !stands {
			next.Seen = newest(newest(next.Seen, since), seen)
			continue
		}
		if p.expired(one, v.now) {
			expired = append(expired, *one)
		}
		next.Pods = append(next.Pods, *one)
	}
	return next, expired
}

// expired reports whether the pod of a reservation, or the last one that a grant admitted, would have appeared by now.
func (p *pending) expired(r *reservation, now time.Time) bool {
	if r.Grant {
		return r.By != p.options.Replica && p.grants.age(r, now) >= grantEnd+p.options.Expiry
	}
	return r.expired(now, p.options.Expiry)
}

// pending reports whether the pod or the update of a reservation may still appear, and the resourceVersion of the
// observation that the reservation is dropped for. A deleted pod requires no observation of other replicas. An update
// is stored as the next version of the pod that it was judged on, or never. Without that version, in a hand-written
// review, a pod that was moved or resized looks the same before and after if it had that form once already; its
// reservation is held until it expires.
func (a *accounts) pending(r *reservation) (stands bool, since string) {
	if _, gone := a.gone[r.UID]; gone && r.UID != "" && !r.Tries {
		return false, ""
	}
	one := a.pods[r.Pod]
	switch {
	case one == nil:
		return true, ""
	case r.Tries:
		return true, one.since
	case one.pod.UID != r.UID:
		return true, ""
	case r.Update && r.From != "":
		return !older(r.From, a.latest(one)), one.since
	}
	return r.Update && (r.Revived || len(one.charge) > 0), one.since
}

// maxConfirmations bounds the reads of one call of confirm. The other reservations remain until the next call.
const maxConfirmations = 20

// confirm asks the store for the pods of expired reservations and reports whether any reservation was revoked.
// The clock alone does not prove that a pod will not appear: after an outage of the API server, or behind a watch that
// died unnoticed, a stored pod may not have been observed yet.
func (p *pending) confirm(ctx context.Context, expired []reservation) (fewer bool) {
	expired = slices.Clone(expired)
	// In random order: a few pods that cannot be confirmed must not block all others.
	rand.Shuffle(len(expired), func(i, j int) { expired[i], expired[j] = expired[j], expired[i] })
	for _, r := range expired[:min(len(expired), maxConfirmations)] {
		if ctx.Err() != nil {
			break
		}
		if seen, done := p.resolved(ctx, &r); done {
			p.revoked.add(seen, r)
			fewer = true
		}
	}
	return fewer
}

// resolved reports whether the pod of an expired reservation does not exist, or is already counted in its current
// state. For a grant, it returns the version up to which all must have observed the pods that it admitted.
func (p *pending) resolved(ctx context.Context, r *reservation) (seen string, done bool) {
	if r.Grant {
		return p.over(ctx, r)
	}
	namespace, name, _ := strings.Cut(r.Pod, "/")
	version, err := p.options.Store.Pod(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return "", errors.Is(err, ErrGone)
	}
	return "", !p.accounts.behind(version)
}

// behind reports whether the pods are not known up to the version.
func (a *accounts) behind(version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return older(a.version, version)
}

// revoked holds the reservations that no longer count, whatever a record says: the caller did not receive the answer
// because it had gone or the write seemed to fail, or the pod was never created. The next write removes them from the
// record. They are remembered longer than that, because a write that seemed to fail may still take effect.
type revoked struct {
	expiry time.Duration
	now    func() time.Time

	mu    sync.Mutex
	until map[reservationID]revocation
	prune time.Time // when until is pruned next
}

// revocation is why a reservation does not count.
type revocation struct {
	until time.Time // when it may be forgotten
	seen  string    // the version up to which the pods must be observed; empty if that does not matter
}

func newRevoked(o Options) *revoked {
	return &revoked{expiry: o.Expiry, now: o.Now, until: map[reservationID]revocation{}}
}

func (r *revoked) add(seen string, all ...reservation) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		r.until[all[i].id()] = revocation{now.Add(2 * r.expiry), seen}
	}
	if now.After(r.prune) {
		r.prune = now.Add(r.expiry)
		maps.DeleteFunc(r.until, func(_ reservationID, one revocation) bool { return one.until.Before(now) })
	}
}

// withdraw revokes reservations whose callers received no answer, except those that are shared with another answer.
func (r *revoked) withdraw(all ...reservation) {
	for _, one := range all {
		if !one.Again {
			r.add("", one)
		}
	}
}

func (r *revoked) get(one *reservation) (seen string, revoked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, revoked := r.until[one.id()]
	return found.seen, revoked
}

func (r *revoked) has(one *reservation) bool {
	_, has := r.get(one)
	return has
}

// Run removes reservations from the records until ctx ends: those whose pods were observed, that expired, or that were
// revoked. A write for another pod of the tree does the same; Run covers trees without new pods. Decisions do not
// depend on it; it keeps the annotations free of stale entries.
func (l *Ledger) Run(ctx context.Context) {
	for {
		every := l.options.Expiry / 3
		select {
		case <-ctx.Done():
			l.giveBack(context.WithoutCancel(ctx))
			return
		case <-time.After(every + rand.N(every)): // randomized, so that one replica finds the records that another has already cleaned
			l.sweep(ctx)
		}
	}
}

func (l *Ledger) sweep(ctx context.Context) {
	reached := l.objects.reached() // before the tree, which may then be newer
	tree, err := l.tree()
	if err != nil {
		return
	}
	held := map[reservationID]bool{}
	for _, object := range l.objects.withRecord() {
		err := l.tidy(ctx, tree, object, reached)
		if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, errWaited) && !lags(err) && ctx.Err() == nil {
			l.options.Log.WithError(err).WithField("quota", object.Quota.Name).Warn("cannot tidy up the quota's reservations; they expire all the same")
		}
		found, _ := l.objects.record(object)
		for i := range found.Pods {
			held[found.Pods[i].id()] = true
		}
	}
	l.grants.forget(held)
}

// tidy removes from the record of an object what is no longer pending, and renews the grants of this replica there.
func (l *Ledger) tidy(ctx context.Context, tree *quota.Tree, object Object, reached string) error {
	v := view{tree: tree, top: object, misplaced: l.objects.misplacedBelow(tree, object.Quota.Name), now: l.options.Now(), reached: reached}
	made, err := l.makePlan(v, nil)
	for err == nil && (l.pending.confirm(ctx, made.expired) || l.found.ask(ctx, made.doubtful)) {
		made, err = l.makePlan(v, nil)
	}
	if err != nil || made.dropped == 0 && (made.grants == nil || !made.grants.due) {
		return err
	}
	return l.write(ctx, v, made)
}
