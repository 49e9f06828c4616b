package ledger

import (
	"fmt"
	"slices"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/quota"
)

// maxRecord bounds the reservations of a record in bytes: the API server takes 256 KiB of annotations, and others write some too. The pods of
// one namespace may have half of that, so that whoever creates very many that never come does not shut out his whole tree.
const maxRecord = 200 << 10

// moment is all that a decision about the pods of one tree follows from.
type moment struct {
	tree   *quota.Tree
	top    Object // the object that carries the tree's record
	strays record // what other objects hold for quotas of this tree, which were elsewhere then
	now    time.Time
}

// plan is a decision: a verdict for each ask, and what the record becomes.
type plan struct {
	verdicts []verdict
	next     record        // what the record becomes
	granted  bool          // some room was given, so that the record must be written before anybody hears of it
	dropped  int           // reservations that the record holds no more
	refused  bool          // some pod does not fit, or its reservation does not
	doubts   []reservation // that have expired, and stand until it is known that their pods do not come
}

// verdict is the answer to one ask.
type verdict struct {
	excess *quota.Excess
	err    error
	held   *reservation // the room that the record must hold for it; nil if none is needed
}

// errBehind: this replica has not seen pods that another one counts on.
var errBehind = fmt.Errorf("the quota ledger waits for pods that another replica has seen already: %w", admit.ErrNotReady)

// errFull: the record has no room for more reservations.
var errFull = fmt.Errorf("the quota ledger holds room for too many pods that have not appeared yet: %w", admit.ErrNotReady)

// plan decides on asks at a moment, in their order: who comes first is served first, and who does not fit leaves the room to the next.
func (l *Ledger) plan(m moment, asks []quota.Ask) (plan, error) {
	before, err := l.objects.record(m.top)
	if err != nil {
		l.options.Log.WithError(err).WithField("quota", m.top.Quota.Name).Error("the quota's annotation " + Annotation + " is damaged and begins anew")
	}
	l.accounts.mu.Lock()
	defer l.accounts.mu.Unlock()
	if l.Shared() && older(m.top.Version, before.Seen) {
		before.Seen = "" // of another cluster, whose manifest was copied: what was seen here is older than the record that says so
	}
	if least := newest(before.Seen, m.strays.Seen); !l.accounts.listed || older(l.accounts.version, least) {
		return plan{}, fmt.Errorf("%w (%s, seen up to %s)", errBehind, least, l.accounts.version)
	}
	l.accounts.settle(m.tree)
	next, doubts := l.sift(m, before)
	strays, more := l.sift(m, m.strays)
	claims := newClaims(m.tree, l.accounts, pointers(next.Pods), pointers(strays.Pods))
	made := plan{verdicts: make([]verdict, len(asks)), dropped: len(before.Pods) - len(next.Pods), doubts: append(doubts, more...)}
	var room shares
	room.all, room.of = next.size()
	for i, ask := range asks {
		made.verdicts[i] = l.decide(m, claims, ask, &room)
		made.granted = made.granted || made.verdicts[i].held != nil
		made.refused = made.refused || made.verdicts[i].excess != nil || made.verdicts[i].err != nil
	}
	made.next = record{Seen: newest(next.Seen, strays.Seen), Pods: claims.all()}
	return made, nil
}

// limited is what a pod counts for of the resources that some quota on its way limits: the others may be many, and matter to nobody.
func limited(ask quota.Ask, path []*quota.Quota, newest func(*quota.Quota) *quota.Quota) api.ResourceList {
	list := api.ResourceList{}
	for name, amount := range ask.Charge {
		if slices.ContainsFunc(path, func(q *quota.Quota) bool { _, _, ok := newest(q).Limit(name); return ok }) {
			list[name] = amount
		}
	}
	return list
}

// shares are how many bytes of a record are taken, and by the pods of which namespace.
type shares struct {
	all int
	of  map[string]int
}

// take counts so many more; false if there is no room.
func (s *shares) take(namespace string, n int) bool {
	if s.all+n > maxRecord || s.of[namespace]+n > maxRecord/2 {
		return false
	}
	s.all += n
	s.of[namespace] += n
	return true
}

// decide gives the verdict on one ask, and counts it for those after it.
func (l *Ledger) decide(m moment, claims *claims, ask quota.Ask, shares *shares) verdict {
	newest := func(q *quota.Quota) *quota.Quota {
		if m.top.Quota != nil && q.Name == m.top.Quota.Name {
			return m.top.Quota
		}
		return q
	}
	if excess := claims.excess(ask, newest); excess != nil {
		return verdict{excess: excess}
	}
	room := &reservation{
		UID: ask.Pod.UID, Pod: podKey(ask.Pod), Quota: ask.Binding.Name, Request: limited(ask, claims.path(ask.Binding.Name), newest),
		Update: ask.Before != nil, Revived: ask.Before != nil && len(ask.Before.Charge) == 0, At: m.now.UnixMilli(), By: l.options.Replica,
	}
	for l.over.has(room) || claims.has(room) {
		room.At++ // another answer at the same moment, which is not to be taken for that one
	}
	before := claims.alike(room)
	if before != nil {
		room.join(before)
	}
	if err := room.encode(); err != nil {
		return verdict{err: err}
	}
	if !shares.take(ask.Pod.Namespace, len(room.json)+1) {
		return verdict{err: errFull}
	}
	if before != nil {
		claims.release(before)
	}
	claims.hold(room)
	return verdict{held: room}
}

// held is the room that the plan gives.
func (p *plan) held() (all []reservation) {
	for _, v := range p.verdicts {
		if v.held != nil {
			all = append(all, *v.held)
		}
	}
	return all
}

// sift gives the record with the reservations that still stand, and notes there what was seen of the others: who has not seen that would count
// neither. Those that have expired stand until it is known that their pods do not come: see inquire.
func (l *Ledger) sift(m moment, r record) (next record, doubts []reservation) {
	next.Seen = r.Seen
	for i := range r.Pods {
		one := &r.Pods[i]
		stands, since := l.accounts.awaits(one)
		if !stands || l.over.has(one) {
			next.Seen = newest(next.Seen, since)
			continue
		}
		if one.expired(m.now, l.options.Expiry) {
			doubts = append(doubts, *one)
		}
		next.Pods = append(next.Pods, *one)
	}
	return next, doubts
}

// awaits tells whether a reservation's pod may still come to what was admitted, and the resourceVersion that showed it as it is. A pod that
// has gone shows nothing that others must have seen. A pod that was moved or resized looks the same before and after, if it was
// so once already: room for that is held for the whole time.
func (a *accounts) awaits(r *reservation) (stands bool, since string) {
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

func pointers(list []reservation) []*reservation {
	all := make([]*reservation, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}
