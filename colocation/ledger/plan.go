package ledger

import (
	"fmt"
	"slices"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// maxRecord bounds the reservations of a record in bytes: the API server takes 256 KiB of annotations, and others write some too. The pods of
// one namespace may have half of that, so that very many that never come do not shut out the whole tree.
const maxRecord = 200 << 10

// view is all that a decision about the pods of one tree follows from.
type view struct {
	tree      *quota.Tree
	top       Object // the object that carries the tree's record
	misplaced record // what other objects hold for quotas of this tree, which were elsewhere then
	now       time.Time
}

// plan is a decision: a verdict for each candidate, and what the record becomes.
type plan struct {
	verdicts []verdict
	next     record        // what the record becomes
	granted  bool          // some room was given, so that the record must be written before anybody hears of it
	dropped  int           // reservations that the record holds no more
	refused  bool          // some pod does not fit, or its reservation does not
	expired  []reservation // that have expired, and stand until it is known that their pods do not come
}

// verdict is the answer to one candidate.
type verdict struct {
	quota.PodVerdict
	err       error
	held      *reservation // the room that the record must hold for it; nil if none is needed
	elsewhere string       // the top of the tree that the candidate belongs to now; empty if the rest is the answer
}

// errBehind: this replica has not seen pods that another one counts on.
var errBehind = fmt.Errorf("the quota ledger waits for pods that another replica has seen already: %w", admit.ErrNotReady)

// errFull: the record has no room for more reservations.
var errFull = fmt.Errorf("the quota ledger holds room for too many pods that have not appeared yet: %w", admit.ErrNotReady)

// unjudged is a plan that judges nobody yet: it sends candidates to the tree that they are of, or has the verdict on those that nothing limits.
func unjudged(placed []placement) plan {
	made := plan{verdicts: make([]verdict, len(placed))}
	for i := range placed {
		made.verdicts[i] = verdict{PodVerdict: placed[i].verdict, elsewhere: placed[i].top}
	}
	return made
}

// plan decides on candidates in one view, in their order: who comes first is served first, and who does not fit leaves the room to the next.
func (l *Ledger) plan(v view, placed []placement) (made plan, _ error) {
	before, err := l.objects.record(v.top)
	if err != nil {
		l.options.Log.WithError(err).WithField("quota", v.top.Quota.Name).Error("the quota's annotation " + Annotation + " is damaged and begins anew")
	}
	if l.Shared() && older(v.top.Version, before.Seen) {
		before.Seen = "" // of another cluster, whose manifest was copied: what was seen here is older than the record that says so
	}
	l.accounts.with(v.tree, func(a *accounts) {
		if err = a.upTo(newest(before.Seen, v.misplaced.Seen)); err == nil {
			made = l.planOn(a, v, before, placed)
		}
	})
	return made, err
}

// planOn is plan with the accounts in its hands. before is the record as it stands.
func (l *Ledger) planOn(a *accounts, v view, before record, placed []placement) plan {
	next, expired := l.dropSeen(a, v, before)
	misplaced, more := l.dropSeen(a, v, v.misplaced)
	counted := newHoldings(v.tree, a, pointers(next.Pods), pointers(misplaced.Pods))
	made := unjudged(placed)
	made.dropped, made.expired = len(before.Pods)-len(next.Pods), append(expired, more...)
	var spent budget
	spent.all, spent.of = next.size()
	for i := range placed {
		if placed[i].top != v.top.Quota.Name {
			continue
		}
		counted.paths[placed[i].verdict.Binding.Name] = placed[i].path
		made.verdicts[i] = l.judge(v, counted, &placed[i], &spent)
		made.granted = made.granted || made.verdicts[i].held != nil
		made.refused = made.refused || len(made.verdicts[i].Excess) > 0 || made.verdicts[i].err != nil
	}
	made.next = record{Seen: newest(next.Seen, misplaced.Seen), Pods: counted.all()}
	return made
}

// limited is what a pod counts for of the resources that some quota on its way limits: the others may be many, and matter to nobody.
func limited(p *placement, latest func(*quota.Quota) *quota.Quota) api.ResourceList {
	list := api.ResourceList{}
	for name, amount := range p.charge {
		if slices.ContainsFunc(p.path, func(q *quota.Quota) bool { _, _, ok := latest(q).Limit(name); return ok }) {
			list[name] = amount
		}
	}
	return list
}

// budget is how many bytes of a record are taken, and by the pods of which namespace.
type budget struct {
	all int
	of  map[string]int
}

// take counts so many more; false if there is no room.
func (s *budget) take(namespace string, n int) bool {
	if s.all+n > maxRecord || s.of[namespace]+n > maxRecord/2 {
		return false
	}
	s.all += n
	s.of[namespace] += n
	return true
}

// judge returns the verdict on one candidate, and counts it for those after it.
func (l *Ledger) judge(v view, counted *holdings, p *placement, spent *budget) verdict {
	answer := verdict{PodVerdict: p.verdict}
	latest := func(q *quota.Quota) *quota.Quota {
		if v.top.Quota != nil && q.Name == v.top.Quota.Name {
			return v.top.Quota
		}
		return q
	}
	if answer.Excess = counted.excess(p, latest); len(answer.Excess) > 0 {
		return answer
	}
	held := &reservation{
		UID: p.pod.UID, Pod: podKey(p.pod), Quota: p.verdict.Binding.Name, Request: limited(p, latest),
		Update: p.before != nil, Revived: p.before != nil && len(p.beforeCharge) == 0, At: v.now.UnixMilli(), By: l.options.Replica,
	}
	for l.revoked.has(held) || counted.has(held) {
		held.At++ // another answer at the same moment, which is not to be taken for that one
	}
	before := counted.alike(held)
	if before != nil {
		held.join(before)
	}
	if err := held.encode(); err != nil {
		return verdict{err: err}
	}
	if !spent.take(p.pod.Namespace, len(held.json)+1) {
		return verdict{err: errFull}
	}
	if before != nil {
		counted.release(before)
	}
	counted.hold(held)
	answer.held = held
	return answer
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

func pointers(list []reservation) []*reservation {
	all := make([]*reservation, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}
