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
)

// dropSeen returns the record with the reservations that still stand, and notes there what was seen of the others: a replica that has not seen
// that would count neither. Those that have expired stand until it is known that their pods do not come: see confirmExpired.
func (l *Ledger) dropSeen(a *accounts, v view, r record) (next record, expired []reservation) {
	next.Seen = r.Seen
	for i := range r.Pods {
		one := &r.Pods[i]
		stands, since := a.pending(one)
		if !stands || l.revoked.has(one) {
			next.Seen = newest(next.Seen, since)
			continue
		}
		if one.expired(v.now, l.options.Expiry) {
			expired = append(expired, *one)
		}
		next.Pods = append(next.Pods, *one)
	}
	return next, expired
}

// pending reports whether a reservation's pod may still come to what was admitted, and the resourceVersion that showed it as it is. A pod that
// has gone shows nothing that others must have seen. A pod that was moved or resized looks the same before and after, if it was
// so once already: room for that is held for the whole time.
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
	}
	return r.Update && (r.Revived || len(one.charge) > 0), one.since
}

// maxConfirmations bounds what is asked at once. The other reservations stand until the next time.
const maxConfirmations = 20

// confirmExpired asks the store for the pods of reservations that have expired, and reports whether fewer stand than before. The clock alone does not
// tell that a pod does not come: after an outage of the API server, or behind a watch that has died unnoticed, a pod may be stored that nobody has
// been shown.
func (l *Ledger) confirmExpired(ctx context.Context, expired []reservation) (fewer bool) {
	expired = slices.Clone(expired)
	rand.Shuffle(len(expired), func(i, j int) { expired[i], expired[j] = expired[j], expired[i] }) // so that some of which nothing is learnt do not hide the others
	for _, r := range expired[:min(len(expired), maxConfirmations)] {
		if ctx.Err() == nil && l.resolved(ctx, &r) {
			l.revoked.add(r)
			fewer = true
		}
	}
	return fewer
}

// resolved reports whether a pod that had all the time there is has not come, or is counted as it came.
func (l *Ledger) resolved(ctx context.Context, r *reservation) bool {
	namespace, name, _ := strings.Cut(r.Pod, "/")
	version, err := l.options.Store.Pod(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return errors.Is(err, ErrGone)
	}
	return !l.accounts.behind(version)
}

// behind reports whether the pods are not known up to a version.
func (a *accounts) behind(version string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return older(a.version, version)
}

// revoked are the reservations that hold no room any more, whatever a record says: their answer was not heard, because the caller had gone or the
// write seemed to fail; or their pods have not come, and will not. The next write takes them out of the record. They are remembered for longer: a write
// that seemed to fail may still come into force.
type revoked struct {
	expiry time.Duration
	now    func() time.Time

	mu    sync.Mutex
	until map[reservationID]time.Time // it matters
	prune time.Time                   // when they are looked through next
}

func newRevoked(o Options) *revoked {
	return &revoked{expiry: o.Expiry, now: o.Now, until: map[reservationID]time.Time{}}
}

func (r *revoked) add(all ...reservation) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		r.until[all[i].id()] = now.Add(2 * r.expiry)
	}
	if now.After(r.prune) {
		r.prune = now.Add(r.expiry)
		maps.DeleteFunc(r.until, func(_ reservationID, end time.Time) bool { return end.Before(now) })
	}
}

func (r *revoked) has(one *reservation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.until[one.id()]
	return has
}

// Run tidies the records up until ctx ends: what was seen, has expired or was for nobody is dropped, also when no pod comes that would
// have it dropped with its own write. Nothing depends on it but that people find no old reservations.
func (l *Ledger) Run(ctx context.Context) {
	for {
		every := l.options.Expiry / 3
		select {
		case <-ctx.Done():
			return
		case <-time.After(every + rand.N(every)): // so that one replica finds what another has tidied up
			l.sweep(ctx)
		}
	}
}

func (l *Ledger) sweep(ctx context.Context) {
	tree, err := l.tree()
	if err != nil {
		return
	}
	for _, object := range l.objects.withRecord() {
		v := view{tree: tree, top: object, now: l.options.Now()}
		made, err := l.plan(v, nil)
		for err == nil && l.confirmExpired(ctx, made.expired) {
			made, err = l.plan(v, nil)
		}
		if err == nil && made.dropped > 0 {
			err = l.write(ctx, v, made)
		}
		if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, errBehind) && ctx.Err() == nil {
			l.options.Log.WithError(err).WithField("quota", object.Quota.Name).Warn("cannot tidy up the quota's reservations; they expire all the same")
		}
	}
}
