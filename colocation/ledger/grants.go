package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// A grant is room in a quota that a record holds for one replica. The replica admits new pods against it without a write;
// for all others it is a reservation of the whole amount. With the next write the replica enters these pods as reservations
// of their own and takes a new grant, so that what it has admitted is in the record at all times, by name or as room.
//
// A grant may be spent for grantUse only. Whoever must know that nobody admits pods by an earlier state of the tree, or
// needs the room, asks for the grants with a mark in the record, and has waited long enough when grantUse is over.

// grantUse is the time for which a replica spends a grant, from the beginning of the write that made it.
const grantUse = 2 * time.Second

// grantEnd is the time after which others may rely on that a grant that they have found in a record is not spent any
// more. Clocks do not run at exactly the same rate.
const grantEnd = grantUse + grantUse/4

// grants are the grants of this replica, and what it knows of those of others.
type grants struct {
	mu    sync.Mutex
	ended bool                               // the replica is shutting down: it takes and spends no more
	in    map[types.NamespacedName]*granted  // by the object whose record holds them
	found map[reservationID]foundGrant       // in records
	until map[types.NamespacedName]time.Time // no grants are taken in a record until then, because they were recalled
}

// foundGrant holds what is known about a grant in a record, usually of another replica.
type foundGrant struct {
	at   time.Time // when it was found first: the clocks of replicas differ
	pods string    // a version of the pods that was read after the last pod that it admitted could be stored; empty: none yet
}

// granted are the grants of this replica in one record. They are renewed together.
type granted struct {
	writing chan struct{} // has a value while the record is being written
	at, new int64         // the times that identify the grants in force, and those that may be in force if a write took effect
	last    int64         // the newest time that a plan was written with, or was to be
	begun   time.Time     // when the write of those in force began; zero if none are
	of      map[string]*grant
	spent   []reservation // the pods that were admitted and that the record does not name, oldest first
	first   int           // the number of the first of them, of all that were ever admitted
	pruned  int           // how often quotas were removed from of
	later   bool          // they will be renewed after some time
	check   grantCheck
}

// grant is the grant in one quota.
type grant struct {
	path   []*quota.Quota // at the time of the grant
	total  sum            // of all that was ever spent
	limit  sum            // that total may reach; nil if there is no grant
	room   sum            // that it had when it was made
	demand demand
}

// grantCheck holds what a version of the record says about the grants.
type grantCheck struct {
	version string
	held    map[string]bool // the quotas whose grants are in force
	record  record
	top     *quota.Quota
}

// spend admits a new pod against a grant, and reports whether it could.
func (l *Ledger) spend(ctx context.Context, p *placement) bool {
	if !l.options.Grants || p.before != nil || ctx.Err() != nil {
		return false
	}
	top, now := p.path[len(p.path)-1], l.options.Now()
	l.grants.mu.Lock()
	defer l.grants.mu.Unlock()
	in := l.grants.in[keyOf(top)]
	if in == nil || l.grants.ended || !in.usable(now) || len(in.spent) >= maxSpent {
		return false
	}
	one := in.of[p.verdict.Binding.Name]
	if one == nil || !slices.EqualFunc(one.path, p.path, sameForPods) || !l.inForce(in, p) {
		return false
	}
	room := limited(p, func(q *quota.Quota) *quota.Quota { return q })
	if !one.spend(room) {
		return false // the write for the pod itself renews the grants
	}
	in.spent = append(in.spent, reservation{UID: p.pod.UID, Pod: podKey(p.pod), Quota: p.verdict.Binding.Name, Request: room,
		At: now.UnixMilli(), By: l.options.Replica})
	one.demand.add(now, room)
	l.counts.decided.Add(1)
	l.counts.granted.Add(1)
	if one.low() || in.due(now) {
		l.renewSoon(top.Name)
	}
	return true
}

// maxSpent bounds the pods that the record does not name.
const maxSpent = maxBatch

// usable reports whether the grants may be spent now. The monotonic clock stands still while a machine is suspended, and
// the other one may be set.
func (g *granted) usable(now time.Time) bool {
	age := now.Round(0).Sub(g.begun.Round(0))
	return !g.begun.IsZero() && now.Sub(g.begun) < grantUse && age >= 0 && age < grantUse
}

// due reports whether the grants are to be renewed: their time is half over, or many pods are to be entered.
func (g *granted) due(now time.Time) bool {
	return now.Sub(g.begun) >= grantUse/2 || len(g.spent) >= maxSpent/2
}

// inForce reports whether the newest known version of the record still has the grant of a pod's quota, and nothing there
// stops it.
func (l *Ledger) inForce(in *granted, p *placement) bool {
	top := p.path[len(p.path)-1]
	object, known := l.objects.get(keyOf(top))
	if !known {
		return false
	}
	if in.check.version != object.Version {
		found, err := l.objects.record(object)
		if err != nil {
			return false
		}
		in.check = grantCheck{version: object.Version, record: found, top: object.Quota, held: map[string]bool{}}
		for i := range found.Pods {
			if r := &found.Pods[i]; r.Grant && r.By == l.options.Replica && (r.At == in.at || r.At == in.new) {
				in.check.held[r.Quota] = true
			}
		}
	}
	return in.check.held[p.verdict.Binding.Name] && !in.check.record.stops(p.path) && sameForPods(in.check.top, top) &&
		!older(l.objects.reached(), in.check.record.Tree)
}

// stops reports whether no grant in a quota may be spent: a replica needs the room, or a change of its path is announced.
func (r *record) stops(path []*quota.Quota) bool {
	return r.Recall != "" || slices.ContainsFunc(r.Changes, func(c change) bool { return touches(path, c.In) })
}

// spend adds an amount to the total, and reports whether the limit allows that.
func (g *grant) spend(amount api.ResourceList) bool {
	next := sum{}
	for name, q := range amount {
		next[name] = g.total[name]
		next.plus(name, q)
		limit, ok := g.limit[name]
		if all := next[name]; !ok || all.Cmp(limit) > 0 {
			return false
		}
	}
	for name, q := range next {
		g.total[name] = q
	}
	return true
}

// low reports whether less than a quarter of the grant is left.
func (g *grant) low() bool {
	for name, limit := range g.limit {
		left := limit.DeepCopy()
		left.Sub(g.total[name])
		left.Mul(4)
		if left.Cmp(g.room[name]) < 0 {
			return true
		}
	}
	return false
}

// demand is the sum of the requests of the pods that this replica recently admitted to a quota: in the current period of
// grantUse and in the one before.
type demand struct {
	since       time.Time
	now, before sum
	pods, last  int // in the same periods
}

// add counts the request of one pod.
func (d *demand) add(at time.Time, request api.ResourceList) {
	d.turn(at)
	if d.now == nil {
		d.now = sum{}
	}
	d.now.add(corev1.ResourceList(request))
	d.pods++
}

// turn begins a new period if the current one is over.
func (d *demand) turn(at time.Time) {
	switch past := at.Sub(d.since); {
	case past > -grantUse && past < grantUse: // a write may have begun before the current period
		return
	case past >= grantUse && past < 2*grantUse:
		d.before, d.last = d.now, d.pods
	default:
		d.before, d.last = nil, 0
	}
	d.since, d.now, d.pods = at, nil, 0
}

func (d *demand) total() sum {
	all := sum{}
	all.add(corev1.ResourceList(d.before))
	all.add(corev1.ResourceList(d.now))
	return all
}

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
		l.awaitTurn(ctx, keyOf(q), time.Now().Add(maxTurn))
		err = l.renewOnce(ctx, q)
	}
	switch {
	case err == nil, errors.Is(err, ErrGone):
	case overtaken(err), lags(err):
		l.renewLater(keyOf(q), grantUse/20)
	default:
		l.renewLater(keyOf(q), grantUse)
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
func (l *Ledger) renewLater(key types.NamespacedName, after time.Duration) {
	l.grants.mu.Lock()
	defer l.grants.mu.Unlock()
	in := l.grants.in[key]
	if in == nil || in.later || l.grants.ended {
		return
	}
	in.later = true
	time.AfterFunc(after, func() {
		l.grants.mu.Lock()
		in.later = false
		l.grants.mu.Unlock()
		l.renewSoon(key.Name)
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
	for _, key := range keys {
		if q := tree.At(key); q != nil {
			l.giveBackIn(ctx, q)
		}
	}
}

// giveBackIn gives back the grants in one record, as often as others overtake that.
func (l *Ledger) giveBackIn(ctx context.Context, top *quota.Quota) {
	for err := l.renewOnce(ctx, top); ctx.Err() == nil && (overtaken(err) || lags(err)); err = l.renewOnce(ctx, top) {
		select {
		case <-l.objects.change():
		case <-time.After(grantUse / 100):
		case <-ctx.Done():
		}
	}
}
