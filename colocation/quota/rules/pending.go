package rules

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// pendingLasts is how long an admitted change is believed in that the tree does not show. A watch brings it within a second; what comes
// later was not stored at all: another webhook refused it, or the API server did.
const pendingLasts = 10 * time.Second

// Pending is the changes that this replica has admitted and does not see in the tree yet. Two quotas that are created in the same second
// so see each other, and a child its parent. The truth is the tree: what is pending here is forgotten as soon as the tree shows it, or
// after ten seconds. Make one with NewPending; it outlives a change of the policy.
type Pending struct {
	now func() time.Time

	// admits is held by Admit from its first look to its last word, so that of two changes one is judged with the other. Nobody else
	// waits for it: a rule may look at all pods of the cluster.
	admits sync.Mutex

	mu      sync.Mutex // of what follows; it is held for a look or a note, never while a rule runs
	entries map[types.NamespacedName]*pending
	// The last tree that was made with the entries, and of what; both nil once the entries are others.
	base, made *quota.Tree
}

// pending is what a quota will be, by the last of some admitted changes. It never changes.
type pending struct {
	will *quota.Quota // nil: there will be none
	// past is what it was before: what the tree showed at the time of each of the changes, and what each of them found, which may be
	// newer. nil: there was none.
	past    []*quota.Quota
	expires time.Time
}

// maxPast bounds what is kept of a quota that somebody changes all the time while the watch stands still.
const maxPast = 32

// NewPending makes an empty one; now is the clock.
func NewPending(now func() time.Time) *Pending {
	return &Pending{now: now, entries: map[types.NamespacedName]*pending{}}
}

// Over gives the stored tree with all that is pending. It does not wait while a change is judged.
func (p *Pending) Over(stored func() (*quota.Tree, error)) (*quota.Tree, error) {
	seen, err := p.look(stored, types.NamespacedName{})
	return seen.over, err
}

// Judge gives the verdict on a change of the stored tree with all that is pending. It remembers nothing.
func (p *Pending) Judge(r Rules, stored func() (*quota.Tree, error), c Change) (Verdict, error) {
	tree, err := p.Over(stored)
	if err != nil {
		return Verdict{}, err
	}
	return r.Judge(tree, c)
}

// Admit gives the verdict too, and remembers the change if there is no problem, in place of what was pending for the same quota: a
// repeated request counts once. Nobody else is admitted meanwhile.
func (p *Pending) Admit(r Rules, stored func() (*quota.Tree, error), c Change) (Verdict, error) {
	p.admits.Lock()
	defer p.admits.Unlock()
	seen, err := p.look(stored, c.Identity())
	if err != nil {
		return Verdict{}, err
	}
	verdict, err := r.Judge(seen.over, c)
	if err == nil && len(verdict.Problems) == 0 {
		p.remember(seen, c)
	}
	return verdict, err
}

// look is what there was to see at one moment.
type look struct {
	base, over *quota.Tree // the stored tree, and that with what is pending, which is the same one if nothing is
	before     *pending    // what is pending for the quota that was asked for; nil if nothing is
}

// look looks at the stored tree and at what is pending. The tree is asked for under the lock: an older one might not show what was
// forgotten because a newer did.
func (p *Pending) look(stored func() (*quota.Tree, error), id types.NamespacedName) (look, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	base, err := stored()
	if err != nil {
		return look{}, err
	}
	p.forget(base)
	if len(p.entries) == 0 {
		return look{base: base, over: base}, nil
	}
	if p.base != base {
		changes := make(map[types.NamespacedName]*quota.Quota, len(p.entries))
		for changed, entry := range p.entries {
			changes[changed] = entry.will
		}
		p.base, p.made = base, base.With(changes)
	}
	return look{base, p.made, p.entries[id]}, nil
}

// forget drops what the tree shows, and what has expired.
func (p *Pending) forget(tree *quota.Tree) {
	now := p.now()
	for id, entry := range p.entries {
		if !now.Before(entry.expires) || entry.seenAs(tree.At(id)) {
			delete(p.entries, id)
			p.base, p.made = nil, nil
		}
	}
}

// seenAs reports whether a tree that shows this quota, or nil, has come to know of the changes: it no longer shows what was before them.
func (e *pending) seenAs(MaxNames *quota.Quota) bool {
	return !slices.ContainsFunc(e.past, func(before *quota.Quota) bool { return alike(before, MaxNames) })
}

// alike reports whether both are the same object in the same state, or both are nil.
func alike(a, b *quota.Quota) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Deleting == b.Deleting && same(a, b)
}

// remember keeps an admitted change, unless the rules do not see any in it, or it cannot come to be: a quota that is there is not
// created once more, which the API server tells its user. It goes by what was seen when the judgement began: a reader may have forgotten
// since what was pending for the quota, because a newer tree shows it. The note is the same as if that reader had come later, and what the
// newer tree shows is in its past.
func (p *Pending) remember(seen look, c Change) {
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
	p.base, p.made = nil, nil
}
