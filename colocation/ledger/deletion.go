package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// errUsed means that pods may appear that were admitted to a quota which is to be deleted, or that other replicas have observed
// pods which this one has not. The whole deletion must be repeated, because the rules for it read the pods.
var errUsed = fmt.Errorf("pods were admitted to it that this replica may not have seen yet; try again: %w", admit.ErrNotReady)

// unused returns an error if a record has reservations in a quota for pods that may still appear, or if others have observed more
// pods. When the quota is deleted nobody would count them, nor in one of its name that is created later. An empty name means
// all quotas.
func (l *Ledger) unused(v view, found record, name string) (err error) {
	found.Pods = slices.DeleteFunc(slices.Clone(found.Pods), func(r reservation) bool { return name != "" && r.quotaIn(v.tree) != name })
	now := l.options.Now() // before the accounts are locked: in tests a clock may stand still
	l.accounts.with(v.tree, func(a *accounts) {
		if a.upTo(found.Seen) != nil {
			err = errUsed
		} else if next, _ := l.pending.dropSeen(a, view{now: now}, found); len(next.Pods) > 0 {
			err = errUsed
		}
	})
	return err
}

// unusedElsewhere is like unused, for the quota's own record, which is deleted with it, and for reservations that are still in the
// records of trees that it was in before. shown is the tree as the watch has shown it.
func (l *Ledger) unusedElsewhere(ctx context.Context, v view, shown *quota.Tree, c QuotaChange) error {
	object, err := l.records.objectSince(ctx, c.Old, c.From)
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
