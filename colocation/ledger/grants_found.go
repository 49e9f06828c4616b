package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"usher.dev/usher/colocation/quota"
)

// age returns how long ago a grant was found first.
func (g *grants) age(r *reservation, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, known := g.found[r.id()]
	if !known {
		one.at = now
		g.found[r.id()] = one
	}
	return now.Sub(one.at)
}

// live reports whether a grant may still be spent, so that its replica can give it back.
func (g *grants) live(r *reservation, now time.Time) bool { return r.Grant && g.age(r, now) < grantEnd }

// forget drops what is known of grants that no record has any more.
func (g *grants) forget(held map[reservationID]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.found {
		if !held[id] {
			delete(g.found, id)
		}
	}
}

// over reports whether this replica has observed all pods that a grant has admitted, and returns the version up to which all
// others must have. The time of the grant must be over, so that all these pods are stored.
func (p *pending) over(ctx context.Context, r *reservation) (seen string, observed bool) {
	p.grants.mu.Lock()
	one := p.grants.found[r.id()]
	p.grants.mu.Unlock()
	if one.pods == "" {
		version, err := p.options.Store.Pods(ctx)
		if err != nil || version == "" {
			return "", false
		}
		one.pods = version
		p.grants.mu.Lock()
		p.grants.found[r.id()] = one
		p.grants.mu.Unlock()
	}
	return p.accounts.passed(one.pods)
}

// passed reports whether the pods are known up to a version, and returns the newest version of an observed pod. Every replica
// comes to observe that one, but perhaps no other pod for a long time.
func (a *accounts) passed(version string) (last string, passed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last, !older(a.version, version)
}

// awaitGrants waits until no other replica spends a grant in the record of a quota where a change was announced: it has given
// it back, or its time is over. The change itself stops new ones, and those of this replica.
func (l *Ledger) awaitGrants(ctx context.Context, top *quota.Quota, tree *quota.Tree, in []string) {
	spent := func(r *reservation) bool {
		return r.By != l.options.Replica && (slices.Contains(in, top.Name) || concerned(tree, r, in))
	}
	for ctx.Err() == nil {
		changed := l.objects.change()
		object, known := l.objects.get(keyOf(top))
		if !known {
			return
		}
		found, _ := l.objects.record(object) // others find none in a damaged one either
		left := l.grants.longest(found, l.options.Now(), spent)
		if left <= 0 {
			return
		}
		select {
		case <-changed:
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
}

// concerned reports whether a change of the named quotas concerns a grant. The tree may be the one after the change, without the
// quota of the grant.
func concerned(tree *quota.Tree, r *reservation, names []string) bool {
	path := tree.Path(r.Quota)
	return len(path) == 0 || touches(path, names)
}

// touches reports whether a path has one of the named quotas.
func touches(path []*quota.Quota, names []string) bool {
	return slices.ContainsFunc(path, func(q *quota.Quota) bool { return slices.Contains(names, q.Name) })
}

// recallFrom sees to that no grant in the record of the quota that is about to change is spent any more, if the change
// concerns it. Its record would be the place for the announcement, but a decision that is written there conflicts with the
// change, and only what is decided without a write does not. A mark in the record makes the API server ask again, once:
// nobody takes a new grant for a while. What is announced in the record of a quota that is about to move must be stored before.
func (l *Ledger) recallFrom(ctx context.Context, v view, c QuotaChange, names []string) error {
	if c.Old == nil {
		return nil
	}
	for {
		changed := l.objects.change()
		object, err := l.records.objectSince(ctx, c.Old, c.From)
		if errors.Is(err, ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.moves() {
			if err := l.settled(ctx, v, object, change{Quota: c.identity().String(), In: names}, true); err != nil {
				return err
			}
		}
		found, _ := l.objects.record(object)
		left := l.grants.longest(found, l.options.Now(), func(r *reservation) bool { return concerned(v.tree, r, names) })
		if left <= 0 {
			return nil
		}
		if found.Recall == "" {
			found.Recall, found.By = l.options.Replica, l.options.Replica
			if err := l.write(ctx, view{top: object}, plan{next: found}); err != nil && !errors.Is(err, ErrConflict) {
				return err
			}
			continue
		}
		select {
		case <-changed:
		case <-time.After(left):
		case <-ctx.Done():
			return busy(context.Cause(ctx))
		}
	}
}

// longest returns the longest time for which a grant in a record may still be spent.
func (g *grants) longest(r record, now time.Time, spent func(*reservation) bool) (left time.Duration) {
	for i := range r.Pods {
		if one := &r.Pods[i]; one.Grant && spent(one) {
			left = max(left, grantEnd-g.age(one, now))
		}
	}
	return left
}
