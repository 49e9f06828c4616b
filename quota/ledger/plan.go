package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/quota"
)

// maxRecord bounds a record in bytes. The API server takes 256 KiB of annotations, and others write some too.
const maxRecord = 200 << 10

// moment is all that a decision about the pods of one tree follows from.
type moment struct {
	tree   *quota.Tree
	top    Object // the object that carries the tree's record
	strays record // of objects that carried it before: the tree had another top then
	now    time.Time
}

// plan is a decision: a verdict for each ask, and what the record becomes.
type plan struct {
	verdicts []verdict
	record   string
	granted  bool // some room was given, so that the record must be written before anybody hears of it
	dropped  int  // reservations that the record holds no more
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
	before, err := parseRecord(m.top.Record)
	if err != nil {
		l.options.Log.WithError(err).WithField("quota", m.top.Quota.Name).Error("the quota's annotation " + Annotation + " is damaged and begins anew")
	}
	l.accounts.mu.Lock()
	defer l.accounts.mu.Unlock()
	if least := newest(before.Seen, m.strays.Seen); older(l.accounts.version, least) {
		return plan{}, fmt.Errorf("%w (%s, seen up to %s)", errBehind, least, l.accounts.version)
	}
	l.accounts.settle(m.tree)
	next := record{Pods: l.sift(m, &before)}
	next.Seen = before.Seen // after sift, which notes there what was seen: in one literal, Go leaves open which comes first
	claims := newClaims(m.tree, l.accounts, pointers(next.Pods, l.siftStrays(m)))
	made := plan{verdicts: make([]verdict, len(asks)), dropped: len(before.Pods) - len(next.Pods)}
	size := next.size()
	for i, ask := range asks {
		made.verdicts[i] = l.decide(m, claims, ask, &size)
		made.granted = made.granted || made.verdicts[i].held != nil
	}
	next.Pods = append(next.Pods, made.held()...)
	made.record, err = next.text()
	return made, err
}

// decide gives the verdict on one ask, and counts it for those after it.
func (l *Ledger) decide(m moment, claims *claims, ask quota.Ask, size *int) verdict {
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
		UID: ask.Pod.UID, Pod: podKey(ask.Pod), Quota: ask.Binding.Name, Request: api.ResourceList(ask.Charge),
		Update: ask.Before != nil, At: m.now.UnixMilli(), By: l.options.Replica,
	}
	for l.unheard.has(room) || claims.has(room) {
		room.At++ // another answer at the same moment, which is not to be taken for that one
	}
	text, err := json.Marshal(room)
	if err != nil {
		return verdict{err: err}
	}
	if *size += len(text) + 1; *size > maxRecord {
		return verdict{err: errFull}
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

// sift gives the reservations that still stand, and notes in the record what was seen of the others.
func (l *Ledger) sift(m moment, r *record) (standing []reservation) {
	for i := range r.Pods {
		one := &r.Pods[i]
		stands, since := l.accounts.awaits(one)
		if stands && !one.expired(m.now, l.options.Expiry) && !l.unheard.has(one) {
			standing = append(standing, *one)
		} else {
			r.Seen = newest(r.Seen, since) // also of a pod that grew and whose room has expired: who is later than that knows neither
		}
	}
	return standing
}

func (l *Ledger) siftStrays(m moment) (standing []reservation) {
	for i := range m.strays.Pods {
		one := &m.strays.Pods[i]
		if stands, _ := l.accounts.awaits(one); stands && !one.expired(m.now, l.options.Expiry) && !l.unheard.has(one) {
			standing = append(standing, *one)
		}
	}
	return standing
}

// awaits tells whether a reservation's pod may still come to what was admitted, and the resourceVersion that showed it as it is. A pod that
// has gone shows nothing that others must have seen. A pod that was moved or resized looks the same before and after, if it was
// so once already: room for that is held for the whole time.
func (a *accounts) awaits(r *reservation) (stands bool, since string) {
	if _, gone := a.gone[r.UID]; gone && r.UID != "" {
		return false, ""
	}
	one := a.pods[r.Pod]
	if one == nil || one.pod.UID != r.UID {
		return true, ""
	}
	return r.Update && len(one.charge) > 0, one.since
}

// size is about how long the record's text is, in bytes.
func (r record) size() int {
	text, err := json.Marshal(r)
	if err != nil {
		return maxRecord
	}
	return len(text)
}

func pointers(lists ...[]reservation) (all []*reservation) {
	for _, list := range lists {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}
