package ledger

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// countedIn returns the used and the reserved amount of a quota under the given reservations.
func countedIn(b *bench, name string, reservations ...reservation) string {
	text := ""
	b.accounts.with(b.tree, func(a *accounts) {
		c := newHoldings(b.tree, a, pointers(reservations), nil)
		text = inShort(corev1.ResourceList(a.used[name])) + " + " + inShort(corev1.ResourceList(c.reserved[name]))
	})
	return text
}

func family(t *testing.T) *bench {
	return lay(t, makeQuota("top", "", "cpu=10 memory=10"), makeQuota("a", "top", "cpu=10"), makeQuota("b", "top", "cpu=10"), makeQuota("b1", "b", ""))
}

// A pod counts once in each quota, however many reservations it has.
func TestHoldings(t *testing.T) {
	moved := func(uid, list, to string) *quota.Pod {
		p := makePod("a/p", uid, list)
		p.Label, p.Labelled = to, true
		return p
	}
	for _, c := range []struct {
		what       string
		seen       *quota.Pod
		held       []*quota.Pod
		top, a, b1 string
	}{
		{"nothing", nil, nil, "0/0 + 0/0", "0/0 + 0/0", "0/0 + 0/0"},
		{"seen", makePod("a/p", "u", "cpu=2"), nil, "2/0 + 0/0", "2/0 + 0/0", "0/0 + 0/0"},
		{"held", nil, []*quota.Pod{makePod("b1/p", "u", "cpu=2")}, "0/0 + 2/0", "0/0 + 0/0", "0/0 + 2/0"},
		{"seen and held", makePod("a/p", "u", "cpu=2"), []*quota.Pod{makePod("a/p", "u", "cpu=2")}, "2/0 + 0/0", "2/0 + 0/0", "0/0 + 0/0"},
		{"grows", makePod("a/p", "u", "cpu=2"), []*quota.Pod{makePod("a/p", "u", "cpu=3")}, "2/0 + 1/0", "2/0 + 1/0", "0/0 + 0/0"},
		{"shrinks", makePod("a/p", "u", "cpu=2"), []*quota.Pod{makePod("a/p", "u", "cpu=1")}, "2/0 + 0/0", "2/0 + 0/0", "0/0 + 0/0"},
		{"grows in one", makePod("a/p", "u", "cpu=2 memory=3"), []*quota.Pod{makePod("a/p", "u", "cpu=3 memory=1")}, "2/3 + 1/0", "2/3 + 1/0", "0/0 + 0/0"},
		{"two tries", nil, []*quota.Pod{makePod("a/p", "u", "cpu=3"), makePod("a/p", "v", "cpu=2 memory=1")}, "0/0 + 3/1", "0/0 + 3/1", "0/0 + 0/0"},
		{"two names", nil, []*quota.Pod{makePod("a/p", "u", "cpu=3"), makePod("a/o", "v", "cpu=2")}, "0/0 + 5/0", "0/0 + 5/0", "0/0 + 0/0"},
		{"another of the name is there", makePod("a/p", "v", "cpu=2"), []*quota.Pod{makePod("a/p", "u", "cpu=3")}, "2/0 + 1/0", "2/0 + 1/0", "0/0 + 0/0"},
		{"moves", makePod("a/p", "u", "cpu=2"), []*quota.Pod{moved("u", "cpu=2", "b1")}, "2/0 + 0/0", "2/0 + 0/0", "0/0 + 2/0"},
		{"moves and grows", makePod("a/p", "u", "cpu=2"), []*quota.Pod{moved("u", "cpu=3", "b1")}, "2/0 + 1/0", "2/0 + 0/0", "0/0 + 3/0"},
		{"one name in two quotas", nil, []*quota.Pod{makePod("a/p", "u", "cpu=2"), moved("v", "cpu=3", "b1")}, "0/0 + 3/0", "0/0 + 2/0", "0/0 + 3/0"},
	} {
		b := family(t)
		if c.seen != nil {
			b.Pods().Put(seenPod(c.seen, 1))
		}
		var rooms []reservation
		for _, p := range c.held {
			rooms = append(rooms, b.room(p, false))
		}
		for name, want := range map[string]string{"top": c.top, "a": c.a, "b1": c.b1} {
			expect(t, c.what+": in "+name, countedIn(b, name, rooms...), want)
		}
	}
}

// Holding reservations one by one gives the same counts as newHoldings.
func TestHoldingsHold(t *testing.T) {
	b := family(t)
	b.Pods().Put(seenPod(makePod("a/p", "u", "cpu=2"), 1))
	c := newHoldings(b.tree, b.accounts, nil, nil)
	b.accounts.with(b.tree, func(*accounts) {})
	var all []reservation
	for i, p := range []*quota.Pod{makePod("a/p", "u", "cpu=3"), makePod("a/p", "v", "cpu=1 memory=2"), makePod("b1/x", "w", "cpu=1"), makePod("a/p", "u", "cpu=3")} {
		room := b.room(p, i == 3)
		all = append(all, room)
		c.hold(&room)
		for _, name := range b.tree.Names() {
			now := inShort(corev1.ResourceList(b.accounts.used[name])) + " + " + inShort(corev1.ResourceList(c.reserved[name]))
			expect(t, name, now, countedIn(b, name, all...))
		}
	}
}

// Which pods are judged, by which limits, and on top of what.
func TestExcess(t *testing.T) {
	top, leaf := makeQuota("top", "", "cpu=4"), makeQuota("q", "top", "cpu=4 memory=2")
	leaf.Admission = amounts("cpu=3")
	b := lay(t, top, leaf, makeQuota("o", "top", ""))
	there := makePod("q/p", "u", "cpu=2")
	b.Pods().Put(seenPod(there, 1))
	b.Pods().Put(seenPod(makePod("o/p", "v", "cpu=1"), 2))
	move := *there
	move.Label, move.Labelled = "o", true
	for _, c := range []struct {
		what string
		ask  quota.Request
		want string
	}{
		{"fits", ask(makePod("q/n", "n", "cpu=1")), "granted"},
		{"the annotation is the limit", ask(makePod("q/n", "n", "cpu=1500m")), "full q cpu: 1500m+2+0 of 3 top cpu: 1500m+3+0 of 4"},
		{"what is not limited", ask(makePod("q/n", "n", "cpu=1 disk=100")), "granted"},
		{"nothing asked for", ask(makePod("q/n", "n", "")), "granted"},
		{"zero fits into a full quota", ask(makePod("q/n", "n", "memory=2 cpu=0")), "granted"},
		{"all that is exceeded", ask(makePod("q/n", "n", "memory=3 cpu=9")), "full q cpu: 9+2+0 of 3 q memory: 3+0+0 of 2 top cpu: 9+3+0 of 4"},
		{"again", ask(there), "granted"},
		{"in place of one of its name", ask(makePod("q/p", "n", "cpu=3")), "granted"},
		{"grows", askChange(there, makePod("q/p", "u", "cpu=3")), "granted"},
		{"grows too much", askChange(there, makePod("q/p", "u", "cpu=4")), "full q cpu: 4+0+0 of 3 top cpu: 4+1+0 of 4"},
		{"moves to where nothing limits", askChange(there, &move), "granted"},
	} {
		if got := b.judged(b.Judge(t.Context(), c.ask)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	expect(t, "writes", b.store.writes, 0)
}

// A request that does not grow is not judged, even above the limit, and leaves nothing in the record, unless it moves.
func TestExcessNotGrowing(t *testing.T) {
	b := lay(t, makeQuota("top", "", "cpu=1"), makeQuota("q", "top", "cpu=1"), makeQuota("o", "top", ""))
	old := makePod("q/p", "u", "cpu=3 memory=1")
	b.Pods().Put(seenPod(old, 1))
	for requests, want := range map[string]string{"cpu=3 memory=5": "granted", "cpu=2": "granted", "cpu=3001m": "full q cpu: 3001m+0+0 of 1 top cpu: 3001m+0+0 of 1"} {
		expect(t, requests, b.reserve(b.Ledger, askChange(old, makePod("q/p", "u", requests))), want)
	}
	move := *old
	move.Label, move.Labelled = "o", true
	expect(t, "moved below the same top", b.reserve(b.Ledger, askChange(old, &move)), "granted")
	back := askChange(&move, old)
	expect(t, "moved into a full quota", b.reserve(b.Ledger, back), "full q cpu: 3+0+0 of 1")
	expect(t, "writes, for the move", b.store.writes, 1)
}

// The pods of a quota whose top changes are judged by the limits that the write will be based on.
func TestNewestLimit(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=4"))
	lowered := makeQuota("q", "", "cpu=1")
	b.store.objects[types.NamespacedName{Namespace: quotaNamespace, Name: "q"}] = Object{Quota: lowered, Version: "7"}
	expect(t, "against the limit of the store", b.reserve(b.Ledger, ask(makePod("q/p", "u", "cpu=2"))), "full q cpu: 2+0+0 of 1")
	expect(t, "conflicts", b.counts.conflicts.Load(), 1)
}
