package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// A change of a quota must count on every replica from the moment when it is stored, not from when its watch shows it.
// Two parts of the record see to that. Before a change is stored, its admission announces it in the records of the trees
// concerned (see Announce): a replica that finds the announcement and has not observed the change lets the pods
// concerned wait. And every record says which version of the tree it was decided by: changes that were not announced
// count for all replicas once one of them that has observed them has decided.

// maxChange bounds the wait of the pods concerned for an announced change to be stored. The API server stores it within
// milliseconds, or not at all because another webhook refuses it. After that time the store is asked.
const maxChange = 2 * time.Second

// maxChanges bounds the announcements in a record.
const maxChanges = 100

// sameForPods reports whether two states of a quota treat pods equally: the same limits for the pods of the same
// namespaces, at the same place. Either may be nil.
func sameForPods(a, b *quota.Quota) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	equal := func(x, y quota.Amount) bool { return x.Cmp(y) == 0 }
	return a.Namespace == b.Namespace && a.Name == b.Name && a.Parent == b.Parent && a.Created.Equal(b.Created) &&
		slices.Equal(a.Namespaces, b.Namespaces) && maps.EqualFunc(a.Max, b.Max, equal) && maps.EqualFunc(a.Admission, b.Admission, equal)
}

// samePlace reports whether two states of a top leave it the top of the same pods. A change of it is not announced in its own record:
// who finds the object changed there must observe the change before it decides. The limits count at once.
func samePlace(a, b *quota.Quota) bool {
	return a.UID == b.UID && a.Parent == b.Parent && slices.Equal(a.Namespaces, b.Namespaces)
}

// tightens reports whether a limit of a quota falls or appears.
func tightens(before, after *quota.Quota) bool {
	for _, list := range []corev1.ResourceList{after.Max, after.Admission} {
		for name := range list {
			was, _, limited := before.Limit(name)
			is, _, _ := after.Limit(name)
			if !limited || is.Cmp(was) < 0 {
				return true
			}
		}
	}
	return false
}

// open holds the announced changes of a record, as far as a plan must know them.
type open struct {
	kept  []change        // those that the record keeps: this replica has not observed them
	tree  string          // the newest version of the others, which the record requires of all replicas from now on
	names map[string]bool // the quotas whose pods must wait
	// doubtful are the changes that may not have been stored, because they were found more than maxChange ago. The store
	// can tell.
	doubtful []change
}

// open divides the announced changes of a record by what this replica has observed.
func (f *found) open(v view, changes []change) (o open) {
	o.names = map[string]bool{}
	for _, c := range changes {
		if version, observed := f.objects.observed(c, v.tree); observed {
			o.tree = newest(o.tree, version)
			continue
		}
		switch found := f.get(c, v.now); {
		case found.asked && !found.stored:
			continue
		case v.now.Sub(found.at) >= maxChange && (!found.asked || c.UID != ""): // a new quota may be deleted before this replica observes it
			o.doubtful = append(o.doubtful, c)
		}
		o.kept = append(o.kept, c)
		for _, name := range c.In {
			o.names[name] = true
		}
	}
	return o
}

// concern reports whether the pod of a placement must wait. What a pod that moves adds to the quotas of its path depends on those
// that it leaves.
func (o *open) concern(p *placement) bool {
	return o.onPath(p.path) || p.moves() && o.onPath(p.tree.Path(p.before.Name))
}

// onPath reports whether an announced change concerns the pods of a path.
func (o *open) onPath(path []*quota.Quota) bool {
	return len(o.names) > 0 && slices.ContainsFunc(path, func(q *quota.Quota) bool { return o.names[q.Name] })
}

// ask asks the store whether changes have been stored, and reports whether it has learned anything.
func (f *found) ask(ctx context.Context, doubtful []change) (learned bool) {
	for _, c := range doubtful {
		object, err := f.options.Store.Read(ctx, c.key())
		switch {
		case err == nil:
			f.set(c, object.Version != c.From && (c.UID == "" || object.Quota.UID == c.UID), f.options.Now())
		case errors.Is(err, ErrGone):
			f.set(c, c.From != "", f.options.Now())
		default:
			continue
		}
		learned = true
	}
	return learned
}

// found holds the announced changes that this replica has found in records. When they were announced does not matter: the
// clocks of replicas differ.
type found struct {
	options *Options
	objects *objects

	mu  sync.Mutex
	all map[changeID]foundChange
}

type foundChange struct {
	at            time.Time // when it was found, or the store was asked
	asked, stored bool      // whether the store was asked, and its answer
}

// changeID identifies a change.
type changeID struct {
	quota, from, by string
	uid             types.UID
	at              int64
}

func (c change) id() changeID { return changeID{c.Quota, c.From, c.By, c.UID, c.At} }

// replaced reports whether a version of the quota is the new one, or one after the state that the change replaces.
func (c change) replaced(q *quota.Quota, version string) bool {
	if c.UID != "" {
		return q.UID == c.UID
	}
	return older(c.From, version)
}

// supersedes reports whether a change makes the announcement of another one superfluous: at most one of them is stored, or
// who has observed it has observed the other.
func (c change) supersedes(other change) bool {
	return c.Quota == other.Quota && c.UID == other.UID && (c.From == "") == (other.From == "")
}

func (c change) key() types.NamespacedName {
	namespace, name, _ := strings.Cut(c.Quota, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// get returns what is known of a change that is found in a record now. It forgets all others when there are many: they are
// found again.
func (f *found) get(c change, now time.Time) foundChange {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, known := f.all[c.id()]
	if !known {
		if len(f.all) > 10*maxChanges {
			clear(f.all)
		}
		one = foundChange{at: now}
		f.all[c.id()] = one
	}
	return one
}

// set notes the answer of the store.
func (f *found) set(c change, stored bool, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[c.id()]
	one.at, one.asked, one.stored = now, true, stored
	f.all[c.id()] = one
}

// observed reports whether the watch has shown a newer state of a quota than the state that a change replaces, and the
// tree includes it; it also returns the newer version. For a quota that is gone, that is the version that the watch has come to:
// a list does not say when it was deleted. Others come to it with the write that requires it.
func (o *objects) observed(c change, tree *quota.Tree) (version string, observed bool) {
	key := c.key()
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, ok := o.shown[key]; ok {
		return last.version, c.replaced(last.quota, last.version) && sameForPods(last.quota, tree.At(key))
	}
	return o.version, c.From != "" && !older(o.version, c.From) && tree.At(key) == nil
}
