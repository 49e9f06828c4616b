package ledger

import (
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// accounts are what the pods that this replica has seen count for. They are a Follower of the pods, so that a pod costs a few
// additions when it changes, and nothing when another one is judged.
type accounts struct {
	counting  quota.Counting
	labelOnly bool
	expiry    time.Duration
	now       func() time.Time

	mu      sync.Mutex
	listed  bool   // the pods were told once
	version string // the pods are known up to here
	pods    map[string]*account
	byKey   map[quota.BindingKey]*held
	used    map[string]sum // of a quota and all below it, in tree
	tree    *quota.Tree
	// gone are pods that have gone, by UID, and until when that matters: a reservation may wait for them.
	gone  map[types.UID]time.Time
	prune time.Time // when gone is looked through next
	// ending are pods that are being deleted, by key.
	ending  map[string]*account
	changed chan struct{} // closed at the next change
}

// held is what the pods of one key count for.
type held struct {
	sum  sum
	pods int
}

// account is one pod's.
type account struct {
	pod    *quota.Pod
	charge corev1.ResourceList
	since  string // the resourceVersion that brought pod
}

func newAccounts(o Options) *accounts {
	a := &accounts{counting: o.Counting, labelOnly: o.LabelOnly, expiry: o.Expiry, now: o.Now, gone: map[types.UID]time.Time{}, changed: make(chan struct{})}
	a.clear()
	return a
}

func (a *accounts) clear() {
	a.pods, a.byKey, a.used = map[string]*account{}, map[quota.BindingKey]*held{}, map[string]sum{}
	a.ending, a.tree = map[string]*account{}, nil
}

// Replace takes up all pods there are.
func (a *accounts) Replace(all []Seen, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.pods
	a.clear()
	a.listed = true
	for _, seen := range all {
		if pod, ok := seen.Object.(*quota.Pod); ok {
			a.enter(seen.Key, a.open(pod, seen.Version, before[seen.Key]))
		}
	}
	for key, b := range before {
		if now := a.pods[key]; now == nil || now.pod.UID != b.pod.UID {
			a.markGone(b.pod)
		}
	}
	a.reached(version)
}

// Put takes up a pod that came or changed.
func (a *accounts) Put(seen Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pod, ok := seen.Object.(*quota.Pod); ok {
		before := a.pods[seen.Key]
		now := a.open(pod, seen.Version, before)
		a.drop(seen.Key)
		if before != nil && before.pod.UID != pod.UID {
			a.markGone(before.pod)
		}
		a.enter(seen.Key, now)
	}
	a.reached(seen.Version)
}

// Remove forgets a pod.
func (a *accounts) Remove(seen Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before := a.pods[seen.Key]; before != nil {
		a.drop(seen.Key)
		a.markGone(before.pod)
	} else if pod, ok := seen.Object.(*quota.Pod); ok {
		a.markGone(pod)
	}
	a.reached(seen.Version)
}

// Reached notes that nothing older is missing.
func (a *accounts) Reached(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reached(version)
}

// change gives what is closed when anything is told next.
func (a *accounts) change() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

func (a *accounts) reached(version string) {
	a.version = newest(a.version, version)
	close(a.changed)
	a.changed = make(chan struct{})
}

// open makes the account of a pod; before is what its key had until now, or nil.
func (a *accounts) open(pod *quota.Pod, version string, before *account) *account {
	now := &account{pod: pod, charge: a.counting.Charge(pod), since: version}
	if before != nil && before.pod.UID == pod.UID && before.countsSame(now) {
		now.since = before.since
	}
	return now
}

func (a *accounts) enter(key string, now *account) {
	if !now.pod.Gone.IsZero() && len(now.charge) > 0 {
		a.ending[key] = now
	}
	a.pods[key] = now
	a.charge(now)
}

// countsSame reports whether two states of a pod count the same.
func (b *account) countsSame(now *account) bool {
	return b.pod.BindingKey() == now.pod.BindingKey() && b.pod.Ended == now.pod.Ended && covers(b.charge, now.charge) && covers(now.charge, b.charge)
}

func (a *accounts) drop(key string) {
	if before := a.pods[key]; before != nil {
		a.discharge(before)
		delete(a.pods, key)
		delete(a.ending, key)
	}
}

// charge adds what a pod counts for to the sums it belongs to.
func (a *accounts) charge(one *account) {
	if len(one.charge) == 0 {
		return
	}
	key := one.pod.BindingKey()
	of := a.byKey[key]
	if of == nil {
		of = &held{sum: sum{}}
		a.byKey[key] = of
	}
	of.pods++
	of.sum.add(one.charge)
	for _, q := range a.path(key) {
		a.usedOf(q.Name).add(one.charge)
	}
}

// discharge takes it away.
func (a *accounts) discharge(one *account) {
	if len(one.charge) == 0 {
		return
	}
	key := one.pod.BindingKey()
	of := a.byKey[key]
	of.sum.sub(one.charge)
	if of.pods--; of.pods == 0 {
		delete(a.byKey, key)
	}
	for _, q := range a.path(key) {
		a.usedOf(q.Name).sub(one.charge)
	}
	one.charge = nil
}

// path is where the pods of a key count, in the tree of the last refresh.
func (a *accounts) path(key quota.BindingKey) []*quota.Quota {
	if a.tree == nil {
		return nil
	}
	return a.tree.Path(a.tree.Bind(key, a.labelOnly).Name)
}

func (a *accounts) usedOf(name string) sum {
	of := a.used[name]
	if of == nil {
		of = sum{}
		a.used[name] = of
	}
	return of
}

// markGone remembers a pod that has gone, for as long as a reservation for it may still stand by anybody's clock.
func (a *accounts) markGone(pod *quota.Pod) { a.gone[pod.UID] = a.now().Add(2 * a.expiry) }

// with runs do on the accounts, which are up to date with a tree and the time and do not change meanwhile.
func (a *accounts) with(tree *quota.Tree, do func(*accounts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(tree)
	do(a)
}

// upTo returns errBehind if the pods are not known up to a version. The caller holds mu.
func (a *accounts) upTo(version string) error {
	if !a.listed || older(a.version, version) {
		return fmt.Errorf("%w (%s, seen up to %s)", errBehind, version, a.version)
	}
	return nil
}

// refresh brings the sums up to date with a tree and the time. The caller holds mu.
func (a *accounts) refresh(tree *quota.Tree) {
	now := a.now()
	if now.After(a.prune) {
		a.prune = now.Add(a.expiry / 2)
		maps.DeleteFunc(a.gone, func(_ types.UID, end time.Time) bool { return end.Before(now) })
	}
	for key, one := range a.ending {
		if one.pod.Gone.Before(now) {
			a.discharge(one)
			delete(a.ending, key)
		}
	}
	if a.tree == tree {
		return
	}
	a.tree, a.used = tree, map[string]sum{}
	for key, of := range a.byKey {
		for _, q := range a.path(key) {
			a.usedOf(q.Name).add(corev1.ResourceList(of.sum))
		}
	}
}
