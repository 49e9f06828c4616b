package rules

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// pendingLasts is the time for which an admitted change is kept that the tree does not show. A watch delivers it within
// a second; otherwise it was not stored at all, because another webhook or the API server refused it.
const pendingLasts = 10 * time.Second

// Pending holds the changes that this replica has admitted and not observed in the tree yet, so that two quotas created
// in the same second are judged against each other, and a child finds its parent. The tree is authoritative: a pending
// change is dropped as soon as the tree shows it, or after ten seconds. Create it with NewPending; it outlives a change
// of the policy.
type Pending struct {
	now func() time.Time

	// admits serializes Admit, so that changes are judged one on top of the other. Other methods do not wait for it: a
	// rule may look at all pods of the cluster.
	admits sync.Mutex

	mu      sync.Mutex // guards the fields below; never held while a rule runs
	entries map[types.NamespacedName]*pending
	// base is the stored tree that overlaid, the last tree with the entries applied, was built from; both are nil after
	// a change of entries.
	base, overlaid *quota.Tree
}

// pending is the state of a quota after one or more admitted changes. It is immutable.
type pending struct {
	will *quota.Quota // nil if the quota is deleted
	// past holds the earlier states of the quota: what the tree showed at each change, and the old object of each
	// change, which may be newer. A nil element means that the quota did not exist.
	past    []*quota.Quota
	expires time.Time
}

// maxPast bounds the states kept of a quota that changes all the time while the watch makes no progress.
const maxPast = 32

// NewPending returns an empty Pending; now is the clock.
func NewPending(now func() time.Time) *Pending {
	return &Pending{now: now, entries: map[types.NamespacedName]*pending{}}
}

// Over returns the stored tree with all pending changes applied. It does not wait while a change is judged.
func (p *Pending) Over(stored func() (*quota.Tree, error)) (*quota.Tree, error) {
	seen, err := p.observe(stored, types.NamespacedName{})
	return seen.over, err
}

// Judge returns the verdict on a change of the stored tree with all pending changes applied. It stores nothing.
func (p *Pending) Judge(r Rules, stored func() (*quota.Tree, error), c Change) (Verdict, error) {
	tree, err := p.Over(stored)
	if err != nil {
		return Verdict{}, err
	}
	return r.Judge(tree, c)
}

// Admit is like Judge, and stores the change if there is no problem. It replaces a pending change of the same quota, so
// that a repeated request counts once. Calls of Admit are serialized.
func (p *Pending) Admit(r Rules, stored func() (*quota.Tree, error), c Change) (Verdict, error) {
	p.admits.Lock()
	defer p.admits.Unlock()
	seen, err := p.observe(stored, c.Identity())
	if err != nil {
		return Verdict{}, err
	}
	verdict, err := r.Judge(seen.over, c)
	if err == nil && len(verdict.Problems) == 0 {
		p.store(seen, c)
	}
	return verdict, err
}

// observation is the state that a judgement is based on.
type observation struct {
	base, over *quota.Tree // the stored tree, without and with the pending changes; the same if there are none
	before     *pending    // the pending state of the quota in question; nil if there is none
}

// observe reads the stored tree and the pending changes. It gets the tree while holding the lock: an older tree might
// not show a change that was dropped because a newer tree shows it.
func (p *Pending) observe(stored func() (*quota.Tree, error), id types.NamespacedName) (observation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	base, err := stored()
	if err != nil {
		return observation{}, err
	}
	p.forget(base)
	if len(p.entries) == 0 {
		return observation{base: base, over: base}, nil
	}
	if p.base != base {
		changes := make(map[types.NamespacedName]*quota.Quota, len(p.entries))
		for changed, entry := range p.entries {
			changes[changed] = entry.will
		}
		p.base, p.overlaid = base, base.With(changes)
	}
	return observation{base, p.overlaid, p.entries[id]}, nil
}

// forget drops the changes that the tree shows, and expired ones.
func (p *Pending) forget(tree *quota.Tree) {
	now := p.now()
	for id, entry := range p.entries {
		if !now.Before(entry.expires) || entry.caughtUp(tree.At(id)) {
			delete(p.entries, id)
			p.base, p.overlaid = nil, nil
		}
	}
}

// caughtUp reports whether a tree in which the quota is shown has caught up with the changes: it is none of the earlier
// states.
func (e *pending) caughtUp(shown *quota.Quota) bool {
	return !slices.ContainsFunc(e.past, func(before *quota.Quota) bool { return equal(before, shown) })
}

// equal reports whether both are the same object in the same state, or both nil.
func equal(a, b *quota.Quota) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Deleting == b.Deleting && same(a, b)
}

// store stores an admitted change, unless it changes nothing for the rules or cannot succeed: the API server refuses
// to create a quota that exists. It uses the state from the beginning of the judgement. A reader may since have dropped
// the pending state of the quota because a newer tree shows it; the result is the same as if that reader had come
// later, because what the newer tree shows is in past.
func (p *Pending) store(seen observation, c Change) {
	id, was, before := c.Identity(), seen.base.At(c.Identity()), seen.before
	if before == nil {
		before = &pending{will: was}
	}
	switch {
	case id.Name == "":
		return
	case c.Old == nil && was != nil && before.will != nil:
		return
	case c.Old != nil && c.New != nil && same(c.Old, c.New):
		return
	}
	past := append(slices.Clip(before.past), was, c.Old)
	past = past[max(0, len(past)-maxPast):]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries[id] = &pending{c.New, past, p.now().Add(pendingLasts)}
	p.base, p.overlaid = nil, nil
}
