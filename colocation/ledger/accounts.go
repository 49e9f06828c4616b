package ledger

import (
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/quota"
)

// accounts holds the charges of the pods that this replica has observed. It is a Follower of the pods: a change of a
// pod costs a few additions, and judging another pod costs nothing.
type accounts struct {
	counting  quota.Counting
	labelOnly bool
	expiry    time.Duration
	now       func() time.Time

	mu      sync.Mutex
	listed  bool   // the first Replace has arrived
	version string // the pods are known up to this resourceVersion
	last    string // the newest resourceVersion of a pod that was observed; version may come from a bookmark of this watch alone
	pods    map[string]*account
	byKey   map[quota.BindingKey]*held
	keysOf  map[string]map[quota.BindingKey]bool // by the quota that they belong to in tree
	used    map[string]sum                       // by quota: the charges of the quota and all its descendants in tree
	apart   map[string]sum                       // by quota: the part of used that the specs of the pods do not request; negative if they request more
	tree    *quota.Tree
	// gone maps the UIDs of deleted pods to the time until which they matter: a reservation may still wait for them.
	gone map[types.UID]time.Time
	// touched holds, by UID, the last versions of the pods that changed without a change of their charge: an update that
	// was judged on an older version was not stored.
	touched map[types.UID]touch
	prune   time.Time // when gone and touched are pruned next
	// ending holds the pods that are being deleted, by key.
	ending  map[string]*account
	changed chan struct{} // closed at the next change
	// onRevival, if not nil, is called for a pod that had ended and counts again.
	onRevival func(ended, now *quota.Pod)
}

// held is the total charge of the pods of one binding key, and the part that their specs do not request.
type held struct {
	sum, apart sum
	pods       int
	quota      string // that the key belongs to in the tree
}

// account is the charge of one pod.
type account struct {
	pod    *quota.Pod
	charge corev1.ResourceList
	since  string // the resourceVersion that introduced this state of the pod
}

// touch is a version of a pod, and the time until which it matters.
type touch struct {
	version string
	until   time.Time
}

func newAccounts(o Options) *accounts {
	a := &accounts{
		counting: o.Counting, labelOnly: o.LabelOnly, expiry: o.Expiry, now: o.Now,
		gone: map[types.UID]time.Time{}, touched: map[types.UID]touch{}, changed: make(chan struct{}),
	}
	a.clear()
	return a
}

func (a *accounts) clear() {
	a.pods, a.byKey, a.used, a.apart = map[string]*account{}, map[quota.BindingKey]*held{}, map[string]sum{}, map[string]sum{}
	a.ending, a.keysOf, a.tree = map[string]*account{}, map[string]map[quota.BindingKey]bool{}, nil
}

func (a *accounts) Replace(all []Seen, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.pods
	if older(version, a.version) { // the store, from a backup: no newer pod than the list is known
		a.version, a.last = "", ""
		clear(a.touched)
		for _, b := range before {
			b.since = ""
		}
	}
	a.clear()
	a.pods, a.listed = make(map[string]*account, len(all)), true
	for _, seen := range all {
		if pod, ok := seen.Object.(*quota.Pod); ok {
			a.insert(seen.Key, a.newAccount(pod, seen.Version, before[seen.Key]))
		}
		a.last = newest(a.last, seen.Version)
	}
	for key, b := range before {
		if now := a.pods[key]; now == nil || now.pod.UID != b.pod.UID {
			a.markGone(b.pod)
		}
	}
	a.reached(version)
}

func (a *accounts) Put(seen Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pod, ok := seen.Object.(*quota.Pod); ok {
		before := a.pods[seen.Key]
		now := a.newAccount(pod, seen.Version, before)
		a.drop(seen.Key)
		if before != nil && before.pod.UID != pod.UID {
			a.markGone(before.pod)
		}
		a.insert(seen.Key, now)
		if now.since != seen.Version {
			a.touched[pod.UID] = touch{seen.Version, a.now().Add(2 * a.expiry)}
		}
	}
	a.last = newest(a.last, seen.Version)
	a.reached(seen.Version)
}

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

func (a *accounts) Reached(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reached(version)
}

// change returns a channel that is closed at the next change.
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

// newAccount creates the account of a pod. before is the previous account of its key, or nil. As long as a node has not
// reported what it has allocated, a pod counts for the most that the node may have seen.
func (a *accounts) newAccount(pod *quota.Pod, version string, before *account) *account {
	now := &account{pod: pod, charge: a.counting.Charge(pod), since: version}
	if before == nil || before.pod.UID != pod.UID {
		return now
	}
	if before.pod.Ended && len(now.charge) > 0 && a.onRevival != nil {
		a.onRevival(before.pod, pod)
	}
	if a.counting.Allocated && pod.Unreported && !quantity.Covers(now.charge, before.charge) {
		now.charge = quantity.Larger(now.charge, before.charge)
	}
	if before.equalCharge(now) {
		now.since = before.since
	}
	return now
}

// latest returns the newest observed version of a pod. After a list it may be an older version with the same charge.
func (a *accounts) latest(one *account) string {
	return newest(one.since, a.touched[one.pod.UID].version)
}

func (a *accounts) insert(key string, now *account) {
	if !now.pod.Gone().IsZero() && len(now.charge) > 0 {
		a.ending[key] = now
	}
	a.pods[key] = now
	a.charge(now)
}

// equalCharge reports whether two states of a pod are charged equally, to the same binding key.
func (b *account) equalCharge(now *account) bool {
	return b.pod.BindingKey() == now.pod.BindingKey() && b.pod.Ended == now.pod.Ended && quantity.EqualAmounts(b.charge, now.charge)
}

func (a *accounts) drop(key string) {
	if before := a.pods[key]; before != nil {
		a.discharge(before)
		delete(a.pods, key)
		delete(a.ending, key)
	}
}

// markGone records the deletion of a pod for as long as any replica may still hold a reservation for it, whatever its
// clock.
func (a *accounts) markGone(pod *quota.Pod) { a.gone[pod.UID] = a.now().Add(2 * a.expiry) }

// with calls do with the accounts brought up to date with the tree and the time. They do not change during the call.
func (a *accounts) with(tree *quota.Tree, do func(*accounts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(tree)
	do(a)
}

// has reports whether any pods that count belong to a quota, or name it if it does not exist.
func (a *accounts) has(tree *quota.Tree, name string) (some bool) {
	a.with(tree, func(a *accounts) { some = len(a.keysOf[name]) > 0 })
	return some
}

// upTo returns errBehind if the pods are not known up to the version. The caller holds mu.
func (a *accounts) upTo(version string) error {
	if !a.listed || older(a.version, version) {
		return fmt.Errorf("%w (%s, seen up to %s)", errBehind, version, a.version)
	}
	return nil
}

// refresh brings the sums up to date with the tree and the time. The caller holds mu.
func (a *accounts) refresh(tree *quota.Tree) {
	now := a.now()
	if now.After(a.prune) {
		a.prune = now.Add(a.expiry / 2)
		maps.DeleteFunc(a.gone, func(_ types.UID, end time.Time) bool { return end.Before(now) })
		maps.DeleteFunc(a.touched, func(_ types.UID, t touch) bool { return t.until.Before(now) })
	}
	for key, one := range a.ending {
		if one.pod.Gone().Before(now) {
			a.discharge(one)
			delete(a.ending, key)
		}
	}
	if a.tree != tree {
		a.move(tree)
	}
}
