package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// QuotaChange is a change of a quota that has been admitted and is about to be stored.
type QuotaChange struct {
	Old, New *quota.Quota // Old is nil for a new quota, New for a deleted one
	From     string       // the resourceVersion of Old; empty for a new quota
}

func (c QuotaChange) identity() types.NamespacedName {
	if c.New != nil {
		return c.New.Identity()
	}
	return c.Old.Identity()
}

// moves reports whether a change may give the pods of the quota another record.
func (c QuotaChange) moves() bool {
	return c.Old != nil && (c.New == nil || c.New.Parent != c.Old.Parent)
}

// created returns the UID of a new quota.
func (c QuotaChange) created() types.UID {
	if c.Old != nil {
		return ""
	}
	return c.New.UID
}

// Announce writes a change into the records of the trees whose pods it concerns, so that no replica decides on these
// pods by the state before. A change that takes nothing from any pod is not written. If this replica lags behind the records, it
// waits, because the quotas may be in other trees by now. The error wraps admit.ErrNotReady; the change must then not be admitted.
func (l *Ledger) Announce(ctx context.Context, c QuotaChange) error {
	if !l.Shared() || sameForPods(c.Old, c.New) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxAnnounce)
	defer cancel()
	for {
		changed, reached := l.objects.change(), l.objects.reached() // before the tree, which may then be newer
		tree, err := l.tree()
		if err != nil {
			return err
		}
		err = l.announce(ctx, view{tree: tree, reached: reached}, c)
		if !temporary(err) {
			return err
		}
		select {
		case <-changed:
		case <-time.After(maxChange / 10): // a change in the way may never be stored
		case <-ctx.Done():
			return err
		}
	}
}

// temporary reports whether Announce may succeed if it is repeated after a short time.
func temporary(err error) bool {
	return lags(err) || errors.Is(err, errChanging) || errors.Is(err, errManyChanges)
}

// announce implements Announce for one state of the quotas.
func (l *Ledger) announce(ctx context.Context, v view, c QuotaChange) error {
	shown := v.tree
	v.tree = having(shown, c.identity(), c.Old)
	named := c.Old == nil && l.accounts.has(shown, c.identity().Name)
	tops, names := concerns(v.tree, c, l.options.LabelOnly, named)
	if len(names) == 0 {
		return nil
	}
	if err := l.recallFrom(ctx, v, c, names); err != nil {
		return fmt.Errorf("recalling the grants in the record of quota %s: %w", c.identity(), err)
	}
	if c.New == nil {
		if err := l.unusedElsewhere(ctx, v, shown, c); err != nil {
			return fmt.Errorf("deleting quota %s: %w", c.identity(), err)
		}
	}
	if len(tops) == 0 {
		return nil
	}
	if len(names) > maxIn {
		names = nil
	}
	select { // one after another, because they would overtake each other's writes
	case l.announcing <- struct{}{}:
		defer func() { <-l.announcing }()
	case <-ctx.Done():
		return busy(context.Cause(ctx))
	}
	for {
		began := time.Now()
		made := change{Quota: c.identity().String(), From: c.From, UID: c.created(), In: names, At: l.options.Now().UnixMilli(), By: l.options.Replica}
		if err := l.announceTo(ctx, tops, v, c, made); err != nil {
			return err
		}
		if time.Since(began) < maxChange/2 {
			return nil
		} // else others may soon take it for a change that was not stored
	}
}

// announceTo adds a change to the records of the tops, and waits until no grant there is spent any more, but no longer than
// maxChange/2.
func (l *Ledger) announceTo(ctx context.Context, tops []*quota.Quota, v view, c QuotaChange, made change) error {
	in := func(top *quota.Quota) change {
		one := made
		if one.In == nil {
			one.In = []string{top.Name} // it is on the path of all pods of the tree
		}
		return one
	}
	for _, top := range tops {
		if err := l.announceAt(ctx, top, v, c, in(top)); err != nil {
			return fmt.Errorf("announcing the change of quota %s to those who admit pods below %s: %w", made.Quota, top.Name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxChange/2)
	defer cancel()
	for _, top := range tops {
		l.awaitGrants(ctx, top, v.tree, in(top).In)
	}
	return nil
}

// maxIn bounds the names in an announcement.
const maxIn = 50

// maxAnnounce bounds the time for an announcement, with the wait for others.
const maxAnnounce = 5 * time.Second

// announceAt adds a change to the record of one quota, as often as other replicas overtake the write.
func (l *Ledger) announceAt(ctx context.Context, top *quota.Quota, v view, c QuotaChange, made change) error {
	for {
		object, err := l.records.object(ctx, top)
		if err == nil && !samePlace(object.Quota, top) {
			err = errOldTree // decisions are written elsewhere
		}
		if err == nil {
			err = l.settled(ctx, v, object, made, c.moves())
		}
		if err == nil && c.New == nil {
			found, _ := l.objects.record(object)
			err = l.unused(v, found.without(object.Version), c.Old.Name)
		}
		if err == nil {
			err = l.addChange(ctx, v, object, made)
		}
		switch {
		case errors.Is(err, ErrGone):
			return errOldTree
		case !errors.Is(err, ErrConflict):
			return err
		case ctx.Err() != nil:
			return busy(err)
		}
	}
}

// settled returns an error as long as a record shows that quotas which a change concerns may have moved, or may still be written
// about here when they do: others have decided by a newer tree, or another change has been announced that this replica has not
// observed. Then decisions on the pods may be written to another record than where the change would be announced.
func (l *Ledger) settled(ctx context.Context, v view, object Object, c change, moves bool) error {
	found, _ := l.objects.record(object)
	found = found.without(object.Version)
	if older(v.reached, found.Tree) {
		return errOldTree
	}
	reach := func(from, to []string) bool {
		return slices.ContainsFunc(from, func(name string) bool { return touches(v.tree.Path(name), to) })
	}
	v.now = l.options.Now()
	others := l.found.open(v, slices.DeleteFunc(found.Changes, func(other change) bool {
		return other.Quota == c.Quota || !reach(c.In, other.In) && !(moves && reach(other.In, c.In))
	}))
	if len(others.kept) == 0 {
		return nil
	}
	l.found.ask(ctx, others.doubtful)
	return errChanging
}

// errManyChanges means that a record announces as many changes as it may.
var errManyChanges = fmt.Errorf("%d changes of quotas are announced that this replica has not observed yet: %w", maxChanges, admit.ErrNotReady)

// addChange writes the record of an object with one more change.
func (l *Ledger) addChange(ctx context.Context, v view, object Object, c change) error {
	before, _ := l.objects.record(object) // a damaged one begins anew
	next, err := l.found.fewer(ctx, v, before.announcing(c))
	if err != nil {
		return err
	}
	return l.write(ctx, view{top: object}, plan{next: next})
}

// fewer removes the announcements that are not needed any more from a record, if it has too many.
func (f *found) fewer(ctx context.Context, v view, r record) (record, error) {
	if len(r.Changes) <= maxChanges {
		return r, nil
	}
	v.now = f.options.Now()
	o := f.open(v, r.Changes)
	if f.ask(ctx, o.doubtful) {
		o = f.open(v, r.Changes)
	}
	if len(o.kept) > maxChanges {
		return r, errManyChanges
	}
	r.Changes, r.Tree = o.kept, newest(r.Tree, o.tree)
	return r, nil
}

// announcing returns the record with one more change. One of the same quota is replaced by the new one, which concerns
// the pods of both.
func (r record) announcing(c change) record {
	r.By, r.Tree = c.By, newest(r.Tree, c.From) // who has not observed what the change was judged on is behind
	r.Changes = slices.Clone(r.Changes)
	if i := slices.IndexFunc(r.Changes, c.supersedes); i >= 0 {
		c.In = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.In, r.Changes[i].In))))
		r.Changes = slices.Delete(r.Changes, i, i+1)
	}
	r.Changes = append(r.Changes, c)
	return r
}
