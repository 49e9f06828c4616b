package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
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
		if !passes(err) {
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

// passes reports whether what keeps a change from being announced usually passes.
func passes(err error) bool {
	return lags(err) || errors.Is(err, errChanging) || errors.Is(err, errManyChanges)
}

// announce implements Announce for one state of the quotas.
func (l *Ledger) announce(ctx context.Context, v view, c QuotaChange) error {
	shown := v.tree
	v.tree = having(shown, c.identity(), c.Old)
	tops, names := concerns(v.tree, c, l.options.LabelOnly)
	if len(names) == 0 {
		return nil
	}
	if err := l.recallFrom(ctx, v, c, names); err != nil {
		return fmt.Errorf("recalling the grants in the record of quota %s: %w", c.identity(), err)
	}
	if c.New == nil {
		if err := l.unusedElsewhere(ctx, v, shown, c); err != nil {
			return err
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
		object, err := l.object(ctx, top)
		if err == nil && object.Quota.Parent != top.Parent {
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
	others := l.openChanges(v, slices.DeleteFunc(found.Changes, func(other change) bool {
		return other.Quota == c.Quota || !reach(c.In, other.In) && !(moves && reach(other.In, c.In))
	}))
	if len(others.kept) == 0 {
		return nil
	}
	l.askChanges(ctx, others.doubtful)
	return errChanging
}

// errManyChanges means that a record announces as many changes as it may.
var errManyChanges = fmt.Errorf("%d changes of quotas are announced that this replica has not observed yet: %w", maxChanges, admit.ErrNotReady)

// addChange writes the record of an object with one more change.
func (l *Ledger) addChange(ctx context.Context, v view, object Object, c change) error {
	before, _ := l.objects.record(object) // a damaged one begins anew
	next, err := l.fewer(ctx, v, before.announcing(c))
	if err != nil {
		return err
	}
	return l.write(ctx, view{top: object}, plan{next: next})
}

// fewer removes the announcements that are not needed any more from a record, if it has too many.
func (l *Ledger) fewer(ctx context.Context, v view, r record) (record, error) {
	if len(r.Changes) <= maxChanges {
		return r, nil
	}
	v.now = l.options.Now()
	o := l.openChanges(v, r.Changes)
	if l.askChanges(ctx, o.doubtful) {
		o = l.openChanges(v, r.Changes)
	}
	if len(o.kept) > maxChanges {
		return r, errManyChanges
	}
	r.Changes, r.Tree = o.kept, newest(r.Tree, o.tree)
	return r, nil
}

// errUsed means that pods may appear that were admitted to a quota which is to be deleted, or that other replicas have observed
// pods which this one has not. The deletion must be judged again.
var errUsed = fmt.Errorf("the quota was given to pods that may not have been observed yet: %w", admit.ErrNotReady)

// unused returns an error if a record has reservations in a quota for pods that may still appear, or if others have observed more
// pods. When the quota is deleted nobody would count them, nor in one of its name that is created later. An empty name means
// all quotas.
func (l *Ledger) unused(v view, found record, name string) (err error) {
	found.Pods = slices.DeleteFunc(slices.Clone(found.Pods), func(r reservation) bool { return name != "" && r.quotaIn(v.tree) != name })
	l.accounts.with(v.tree, func(a *accounts) {
		if a.upTo(found.Seen) != nil {
			err = errUsed
		} else if next, _ := l.dropSeen(a, view{now: l.options.Now()}, found); len(next.Pods) > 0 {
			err = errUsed
		}
	})
	return err
}

// unusedElsewhere is like unused for the own record of a quota that is to be deleted, which goes with it, and for what has been
// in the records of other trees since it moved. shown is the tree as the watch has shown it.
func (l *Ledger) unusedElsewhere(ctx context.Context, v view, shown *quota.Tree, c QuotaChange) error {
	object, err := l.objectSince(ctx, c.Old, c.From)
	if err == nil {
		found, _ := l.objects.record(object)
		err = l.unused(v, found.without(object.Version), "")
	}
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	top, name := c.Old.Name, c.Old.Name
	if path := v.tree.Path(name); len(path) > 0 {
		top = path[len(path)-1].Name
	}
	if top == name {
		name = "" // also those for the quotas below
	}
	return l.unused(v, l.objects.misplacedBelow(shown, top), name)
}

// announcing returns the record with one more change. One of the same quota is replaced by the new one, which concerns
// the pods of both.
func (r record) announcing(c change) record {
	r.By, r.Tree = c.By, newest(r.Tree, c.From) // who has not observed what the change was judged on is behind
	r.Changes = slices.Clone(r.Changes)
	if i := slices.IndexFunc(r.Changes, func(other change) bool { return c.supersedes(other) }); i >= 0 {
		c.In = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.In, r.Changes[i].In))))
		r.Changes = slices.Delete(r.Changes, i, i+1)
	}
	r.Changes = append(r.Changes, c)
	return r
}

// concerns returns the quotas whose pods must not be decided on before a change is observed, and the tops of the trees
// that they are in before or after it. A change that only gives room concerns none. The quota itself is never among the
// tops: its own write conflicts with any decision that is written there, and a webhook must not write to the object under
// review, because the API server would then ask again.
func concerns(tree *quota.Tree, c QuotaChange, labelOnly bool) (tops []*quota.Quota, names []string) {
	id := c.identity()
	before, after := having(tree, id, c.Old), having(tree, id, c.New)
	all := map[string]bool{}
	switch {
	case c.Old == nil:
		for _, child := range after.Children(id.Name) { // it had named the quota as its parent, which did not exist
			if from, to := before.Path(child), after.Path(child); len(to) > len(from) {
				all[child] = true
				joins(all, from, to)
			}
		}
	case c.New == nil:
		all[id.Name] = true
	default:
		if tightens(c.Old, c.New) || c.Old.Parent != c.New.Parent {
			all[id.Name] = true
		}
		joins(all, before.Path(id.Name), after.Path(id.Name))
	}
	for _, namespace := range namespacesOf(c) {
		key := quota.BindingKey{Namespace: namespace}
		was, is := before.Bind(key, labelOnly), after.Bind(key, labelOnly)
		if was.Name != is.Name {
			if was.Quota != nil {
				all[was.Name] = true
			}
			joins(all, before.Path(was.Name), after.Path(is.Name))
		}
	}
	at := map[string]*quota.Quota{}
	for name := range all {
		for _, path := range [][]*quota.Quota{before.Path(name), after.Path(name)} {
			if len(path) > 0 && path[len(path)-1].Identity() != id && !api.ReservedQuota(path[len(path)-1].Name) {
				at[path[len(path)-1].Name] = path[len(path)-1]
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		tops = append(tops, at[name])
	}
	return tops, slices.Sorted(maps.Keys(all))
}

// having returns the tree with a state of a quota that treats pods equally.
func having(tree *quota.Tree, id types.NamespacedName, q *quota.Quota) *quota.Tree {
	if sameForPods(tree.At(id), q) {
		return tree
	}
	return tree.With(map[types.NamespacedName]*quota.Quota{id: q})
}

// joins adds the quotas of a path whose sums grow because pods move to it from another path.
func joins(all map[string]bool, from, to []*quota.Quota) {
	for _, q := range to {
		if !slices.ContainsFunc(from, func(other *quota.Quota) bool { return other.Name == q.Name }) {
			all[q.Name] = true
		}
	}
}

// namespacesOf returns the namespaces that a change may bind to another quota.
func namespacesOf(c QuotaChange) []string {
	lists := map[string]int{}
	for _, q := range []*quota.Quota{c.Old, c.New} {
		if q == nil {
			continue
		}
		own := q.Namespaces
		if q.Name == q.Namespace {
			own = append(slices.Clone(own), q.Name)
		}
		for _, namespace := range slices.Compact(slices.Sorted(slices.Values(own))) {
			lists[namespace]++
		}
	}
	both := c.Old != nil && c.New != nil
	maps.DeleteFunc(lists, func(_ string, n int) bool { return both && n == 2 })
	return slices.Sorted(maps.Keys(lists))
}
