package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// maxRecord bounds the reservations of a record in bytes: the API server accepts 256 KiB of annotations, which other
// writers share. The pods of one namespace may use half of it, so that a flood of pods that are never created does not
// block the whole tree.
const maxRecord = 200 << 10

// view is the input of a decision about the pods of one tree.
type view struct {
	tree      *quota.Tree
	top       Object // the object that carries the tree's record
	misplaced record // reservations for quotas of this tree on other objects: the quotas were elsewhere at the time
	reached   string // the resourceVersion that the tree includes all changes up to
	now       time.Time
}

// plan is a decision: a verdict for each candidate and the next record.
type plan struct {
	verdicts []verdict
	next     record        // the record to write
	granted  bool          // something was reserved: the record must be written before the verdicts that are not settled are sent
	dropped  int           // the number of reservations and announced changes that the next record no longer holds
	refused  bool          // some pod does not fit, or its reservation does not
	waits    bool          // some pod waits for an announced change
	doubtful []change      // announced changes that may not have been stored
	expired  []reservation // expired reservations, which count until their pods are known not to come
	recalls  bool          // the record must be written because some pod needs the room of other replicas' grants
	grants   *grantPlan    // nil if the record keeps the grants of this replica as they are
}

// verdict is the answer to one candidate.
type verdict struct {
	quota.PodVerdict
	err       error
	held      *reservation // the reservation that the record must hold for it; nil if none is needed
	elsewhere string       // the top of the tree that the candidate now belongs to; empty if the verdict is final
	later     bool         // the candidate is to be decided again, because a change of its quotas is being stored, or room is recalled
	recalled  bool         // it fits as soon as other replicas give back grants
	firm      bool         // the pod would not fit either if the plan had reserved nothing for others
}

// settled reports whether the verdict stands whether or not the record of its plan is written.
func (v *verdict) settled() bool {
	return v.elsewhere == "" && v.held == nil && (v.firm || len(v.Excess) == 0)
}

// errBehind means that this replica has not observed pods that another replica has already dropped reservations for.
var errBehind = fmt.Errorf("the quota ledger waits for pods that another replica has seen already: %w", admit.ErrNotReady)

// errOldTree means that this replica has not observed a change of the quotas that another replica has.
var errOldTree = fmt.Errorf("the quota ledger waits for quotas that another replica has seen already: %w", admit.ErrNotReady)

// errChanging means that a change of the pod's quotas has been admitted, and that this replica has not observed it yet.
var errChanging = fmt.Errorf("the quota ledger waits for a change of the pod's quotas that is being stored: %w", admit.ErrNotReady)

// lags reports whether a decision failed because this replica has to observe more first.
func lags(err error) bool { return errors.Is(err, errBehind) || errors.Is(err, errOldTree) }

// errFull means that the record has no space for more reservations.
var errFull = fmt.Errorf("the quota ledger holds room for too many pods that have not appeared yet: %w", admit.ErrNotReady)

// unjudged returns a plan without decisions: each verdict is final, or refers the candidate to the tree it belongs to.
func unjudged(placed []placement) plan {
	made := plan{verdicts: make([]verdict, len(placed))}
	for i := range placed {
		made.verdicts[i] = verdict{PodVerdict: placed[i].verdict, elsewhere: placed[i].top}
	}
	return made
}

// makePlan decides on the candidates of one view in their order: first come, first served. A pod that does not fit leaves
// the capacity to the next.
func (l *Ledger) makePlan(v view, placed []placement) (made plan, _ error) {
	before, err := l.objects.record(v.top)
	if err != nil {
		l.options.Log.WithError(err).WithField("quota", v.top.Quota.Name).Error("the quota's annotation " + Annotation + " is damaged and begins anew")
	}
	if l.Shared() {
		before = before.without(v.top.Version)
	}
	if older(v.reached, newest(before.Tree, v.misplaced.Tree)) {
		return plan{}, errOldTree
	}
	l.accounts.with(v.tree, func(a *accounts) {
		if err = a.upTo(newest(before.Seen, v.misplaced.Seen)); err == nil {
			made = l.planLocked(a, v, before, placed)
		}
	})
	return made, err
}

// planLocked implements makePlan with the accounts locked. before is the current record.
func (l *Ledger) planLocked(a *accounts, v view, before record, placed []placement) plan {
	before, grants := l.pending.enterSpent(a, v, before)
	next, expired := l.pending.dropSeen(a, v, before)
	misplaced, more := l.pending.dropSeen(a, v, v.misplaced)
	r := l.newRound(v, a, before, next, misplaced)
	made := unjudged(placed)
	made.expired, made.doubtful = slices.Concat(expired, more, l.pending.overdue(v, grants)), r.changes.doubtful
	made.dropped = len(before.Pods) - len(next.Pods) + len(before.Changes) - len(r.changes.kept)
	for i := range placed {
		if placed[i].top == v.top.Quota.Name {
			made.verdicts[i] = l.decideOn(v, r, &made, &placed[i])
		}
	}
	if made.grants = grants; grants != nil {
		made.grants.held = made.newPods()
		grants.take(v, r.counted, r.stops, &r.spent)
	}
	made.recalls = r.recall.needed && before.Recall == ""
	if before.Recall != "" && r.recall.by() == "" {
		made.dropped++
	}
	made.next = record{
		Recall: r.recall.by(), Seen: newest(next.Seen, misplaced.Seen), By: l.options.Replica, Changes: r.changes.kept, Pods: r.counted.all(),
		Tree: newest(newest(before.Tree, v.misplaced.Tree), newest(r.changes.tree, l.objects.treeVersion(v.reached))),
	}
	return made
}

// round holds the state with which the candidates of a plan are judged, one after another.
type round struct {
	counted *holdings        // with what the plan has reserved so far
	first   func() *holdings // without that
	changes open
	recall  *recall
	spent   budget
}

// newRound begins a plan. next is the record before without what is no longer pending.
func (l *Ledger) newRound(v view, a *accounts, before, next, misplaced record) *round {
	count := func() *holdings { return newHoldings(v.tree, a, pointers(next.Pods), pointers(misplaced.Pods)) }
	r := &round{counted: count(), first: sync.OnceValue(count), changes: l.found.open(v, before.Changes),
		recall: l.newRecall(v, a, before, next, misplaced)}
	r.spent.all, r.spent.of = next.size()
	return r
}

// stops reports whether no grants are taken in a path.
func (r *round) stops(path []*quota.Quota) bool { return r.recall.by() != "" || r.changes.onPath(path) }

// decideOn returns the verdict on one candidate of the tree, and notes in the plan what follows from it.
func (l *Ledger) decideOn(v view, r *round, made *plan, p *placement) verdict {
	later := verdict{elsewhere: v.top.Quota.Name, later: true}
	if r.changes.concern(p) {
		made.waits = true
		return later
	}
	r.counted.paths[p.verdict.Binding.Name] = p.path
	one := l.judge(v, r.counted, p, &r.spent)
	if len(one.Excess) > 0 && r.recall.helps(p) {
		later.PodVerdict, later.recalled = p.verdict, true
		return later
	}
	if len(one.Excess) > 0 {
		one.firm = !made.granted || len(r.first().excess(p, v.latest)) > 0
	}
	made.granted = made.granted || one.held != nil
	made.refused = made.refused || len(one.Excess) > 0 || one.err != nil
	return one
}

// limited returns the charge of a pod for the resources that any quota on its path limits, and for CPU and memory, which a
// quota may limit by the time that the pod is stored. The others may be many and do not matter.
func limited(p *placement, latest func(*quota.Quota) *quota.Quota) api.ResourceList {
	list := api.ResourceList{}
	for name, amount := range p.charge {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
			slices.ContainsFunc(p.path, func(q *quota.Quota) bool { _, _, ok := latest(q).Limit(name); return ok }) {
			list[name] = amount
		}
	}
	return list
}

// budget counts the bytes of a record, in total and by the namespace of the pods.
type budget struct {
	all int
	of  map[string]int
}

// add adds n bytes, and returns false if they exceed the limits.
func (s *budget) add(namespace string, n int) bool {
	if s.all+n > maxRecord || s.of[namespace]+n > maxRecord/2 {
		return false
	}
	s.all += n
	s.of[namespace] += n
	return true
}

// latest returns the newest known state of a quota.
func (v *view) latest(q *quota.Quota) *quota.Quota {
	if v.top.Quota != nil && q.Name == v.top.Quota.Name {
		return v.top.Quota
	}
	return q
}

// judge returns the verdict on one candidate and reserves its request for the rest of the plan.
func (l *Ledger) judge(v view, counted *holdings, p *placement, spent *budget) verdict {
	answer := verdict{PodVerdict: p.verdict}
	if answer.Excess = counted.excess(p, v.latest); len(answer.Excess) > 0 {
		return answer
	}
	held := &reservation{
		UID: p.pod.UID, Pod: podKey(p.pod), Quota: p.verdict.Binding.Name, Own: p.own(), Request: limited(p, v.latest),
		Update: p.before != nil, From: p.from, Revived: p.before != nil && len(p.beforeCharge) == 0, At: v.now.UnixMilli(), By: l.options.Replica,
	}
	for l.revoked.has(held) || counted.has(held) {
		held.At++ // another reservation of the same millisecond must have another ID
	}
	before := counted.alike(held)
	if before != nil {
		held.merge(before)
	}
	if err := held.encode(); err != nil {
		return verdict{err: err}
	}
	if !spent.add(p.pod.Namespace, len(held.json)+1) {
		return verdict{err: errFull}
	}
	if before != nil {
		counted.release(before)
	}
	counted.hold(held)
	answer.held = held
	return answer
}

// newPods returns the reservations that the plan adds for new pods.
func (p *plan) newPods() (all []*reservation) {
	for _, v := range p.verdicts {
		if v.held != nil && !v.held.Update {
			all = append(all, v.held)
		}
	}
	return all
}

// held returns the reservations that the plan adds.
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
