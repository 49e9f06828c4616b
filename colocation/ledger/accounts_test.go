package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/seed"
)

// usedNow returns the charges in every quota.
func usedNow(b *bench) string {
	text := ""
	b.accounts.with(b.tree, func(a *accounts) {
		for _, name := range b.tree.Names() {
			text += fmt.Sprintf("%s %s ", name, inShort(corev1.ResourceList(a.used[name])))
		}
	})
	return text
}

// accountsTree has three levels.
func accountsTree(t testing.TB) *bench {
	return lay(t, makeQuota("top", "", "cpu=9"), makeQuota("a", "top", "cpu=9"), makeQuota("b", "top", "cpu=9"), makeQuota("a1", "a", "cpu=9"))
}

// The same pods give the same sums, whether they arrive one by one in any order or all at once.
func TestAccountsOrder(t *testing.T) {
	rng := seed.Random(t)
	for range 200 {
		changed, listed := accountsTree(t), accountsTree(t)
		there := map[string]*quota.Pod{}
		for version := range 40 {
			key := []string{"a/", "b/", "a1/", "none/"}[rng.IntN(4)] + strconv.Itoa(rng.IntN(4))
			p := randomPod(rng, changed.clock, key, version)
			if rng.IntN(4) == 0 {
				changed.Pods().Remove(seenPod(p, version+1))
				delete(there, key)
			} else {
				changed.Pods().Put(seenPod(p, version+1))
				there[key] = p
			}
			if rng.IntN(4) == 0 {
				usedNow(changed) // with or without a tree in between
			}
		}
		var all []Seen
		for _, key := range slices.Sorted(maps.Keys(there)) {
			all = append(all, seenPod(there[key], 1))
		}
		listed.Pods().Put(seenPod(makePod("a/old", "old", "cpu=7"), 1))
		listed.Pods().Replace(all, "40")
		if got, want := usedNow(changed), usedNow(listed); got != want {
			t.Fatalf("%s by changes, %s by a list", got, want)
		}
		if got, want := usedNow(changed), counted(changed, there); got != want {
			t.Fatalf("%s, but the pods are %s", got, want)
		}
	}
}

// TestAccountsMove: while pods and the tree change, the sums are those of the pods in the tree, and nothing is kept of quotas
// and pods that are gone.
func TestAccountsMove(t *testing.T) {
	rng := seed.Random(t)
	for range 300 {
		b, there := lay(t, makeQuota("top", "", "cpu=9")), map[string]*quota.Pod{}
		for version := range 30 {
			switch rng.IntN(3) {
			case 0:
				q := makeQuota([]string{"top", "a", "b", "a1", "n"}[rng.IntN(5)], []string{"", "top", "a", "b", "a1"}[rng.IntN(5)], "cpu=9")
				q.Namespace, q.Namespaces = []string{quotaNamespace, q.Name}[rng.IntN(2)], [][]string{nil, {q.Name}, {"n"}}[rng.IntN(3)]
				change := map[types.NamespacedName]*quota.Quota{{Namespace: quotaNamespace, Name: q.Name}: nil, {Namespace: q.Name, Name: q.Name}: nil}
				if rng.IntN(4) > 0 {
					change[q.Identity()] = q
				}
				b.tree = b.tree.With(change)
			case 1:
				p := randomPod(rng, b.clock, []string{"a/", "b/", "a1/", "n/"}[rng.IntN(4)]+strconv.Itoa(rng.IntN(3)), version)
				p.Labelled = p.Labelled || rng.IntN(3) == 0
				b.Pods().Put(seenPod(p, version+1))
				there[podKey(p)] = p
			case 2:
				for _, key := range slices.Sorted(maps.Keys(there))[:min(1, len(there))] {
					b.Pods().Remove(seenPod(there[key], version+1))
					delete(there, key)
				}
			}
			if got, want := usedNow(b), counted(b, there); got != want {
				t.Fatalf("%s, but the pods are %s", got, want)
			}
		}
		for key, p := range there {
			b.Pods().Remove(seenPod(p, 100))
			delete(there, key)
		}
		b.tree = quota.NewTree(nil)
		if usedNow(b); len(b.accounts.keysOf)+len(b.accounts.used)+len(b.accounts.byKey) > 0 {
			t.Fatalf("kept: %v %v", b.accounts.keysOf, b.accounts.used)
		}
	}
}

func randomPod(rng *rand.Rand, now time.Time, key string, version int) *quota.Pod {
	p := makePod(key, fmt.Sprintf("u%d", rng.IntN(3)), fmt.Sprintf("cpu=%dm memory=%d", rng.IntN(3000), rng.IntN(5)))
	switch rng.IntN(6) {
	case 0:
		p.Ended = true
	case 1:
		p.Special = &quota.Special{Gone: now.Add(time.Duration(rng.IntN(3)-1) * time.Minute)}
	case 2:
		p.Label, p.Labelled = "b", true
	}
	return p
}

// counted computes what usedNow returns from scratch.
func counted(b *bench, there map[string]*quota.Pod) (text string) {
	for _, name := range b.tree.Names() {
		total := sum{}
		for _, p := range there {
			on := slices.ContainsFunc(b.tree.Path(b.tree.Bind(p.BindingKey(), false).Name), func(q *quota.Quota) bool { return q.Name == name })
			if on && !p.Ended && (p.Gone().IsZero() || !p.Gone().Before(b.clock)) {
				total.add(p.Requests)
			}
		}
		text += fmt.Sprintf("%s %s ", name, inShort(corev1.ResourceList(total)))
	}
	return text
}

// A pod that is being deleted counts until its grace period is over, without any further event.
func TestAccountsGrace(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	p := makePod("q/p", "u", "cpu=2")
	p.Special = &quota.Special{Gone: b.clock.Add(time.Minute)}
	b.Pods().Put(seenPod(p, 1))
	expect(t, "in its grace", usedNow(b), "q 2/0 ")
	b.clock = p.Gone().Add(time.Millisecond)
	expect(t, "after it", usedNow(b), "q 0/0 ")
	b.Pods().Put(seenPod(p, 2))
	expect(t, "after one more change", usedNow(b), "q 0/0 ")
	b.Pods().Remove(seenPod(p, 3))
	expect(t, "removed", usedNow(b), "q 0/0 ")
}

// What nodes hold beyond the specs is counted, and known apart.
func TestAccountsApart(t *testing.T) {
	b := accountsTree(t)
	apart := func() string {
		text := usedNow(b) + "| "
		for _, name := range b.tree.Names() {
			text += fmt.Sprintf("%s %s ", name, inShort(corev1.ResourceList(b.accounts.apart[name])))
		}
		return text
	}
	b.Pods().Put(seenPod(makePod("a1/idle", "i", "cpu=1"), 1))
	expect(t, "idle", apart(), "a 1/0 a1 1/0 b 0/0 top 1/0 | a 0/0 a1 0/0 b 0/0 top 0/0 ")
	b.Pods().Put(seenPod(shrinking("a1/p", "u", "cpu=2", "cpu=6"), 2))
	expect(t, "shrinks", apart(), "a 7/0 a1 7/0 b 0/0 top 7/0 | a 4/0 a1 4/0 b 0/0 top 4/0 ")
	b.Pods().Put(seenPod(shrinking("b/p", "v", "cpu=9", "cpu=1"), 3))
	expect(t, "infeasible", apart(), "a 7/0 a1 7/0 b 1/0 top 8/0 | a 4/0 a1 4/0 b -8/0 top -4/0 ")
	b.grow(makeQuota("top", "", "cpu=9"), makeQuota("a1", "top", "cpu=9"), makeQuota("b", "", "cpu=9"))
	expect(t, "another tree", apart(), "a1 7/0 b 1/0 top 7/0 | a1 4/0 b -8/0 top 4/0 ")
	unsettled := shrinking("b/p", "v", "cpu=9", "cpu=1")
	unsettled.Held.Unsettled = true
	b.Pods().Put(seenPod(unsettled, 4))
	expect(t, "unsettled", apart(), "a1 7/0 b 9/0 top 7/0 | a1 4/0 b 0/0 top 4/0 ")
	b.Pods().Put(seenPod(makePod("a1/p", "u", "cpu=2"), 5))
	b.Pods().Remove(seenPod(unsettled, 6))
	expect(t, "carried out", apart(), "a1 3/0 b 0/0 top 3/0 | a1 0/0 b 0/0 top 0/0 ")
}

// Before its node has reported, a pod counts for the most that it requested since it was bound.
func TestAccountsUnreported(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	pod := func(uid, requests string, unreported bool) *quota.Pod {
		p := makePod("q/p", uid, requests)
		p.Unreported = unreported
		return p
	}
	for i, c := range []struct {
		what string
		pod  *quota.Pod
		want string
	}{
		{"not bound", pod("u", "cpu=8", false), "8/0, 8/0 by spec"},
		{"resized before that", pod("u", "cpu=6", false), "6/0, 6/0 by spec"},
		{"bound", pod("u", "cpu=6", true), "6/0, 6/0 by spec"},
		{"resized", pod("u", "cpu=2 memory=1", true), "6/1, 2/1 by spec"},
		{"resized again", pod("u", "cpu=7", true), "7/1, 7/0 by spec"},
		{"the node reports", shrinking("q/p", "u", "cpu=2", "cpu=6"), "6/0, 2/0 by spec"},
		{"and has carried it out", pod("u", "cpu=2", false), "2/0, 2/0 by spec"},
		{"resized", pod("u", "cpu=5", true), "5/0, 5/0 by spec"},
		{"taken back, which the node may not know", pod("u", "cpu=2", true), "5/0, 2/0 by spec"},
		{"it had taken it up", shrinking("q/p", "u", "cpu=2", "cpu=5"), "5/0, 2/0 by spec"},
		{"and has given it back", pod("u", "cpu=2", false), "2/0, 2/0 by spec"},
		{"another", pod("v", "cpu=1", true), "1/0, 1/0 by spec"},
	} {
		b.Pods().Put(seenPod(c.pod, i+1))
		usedNow(b)
		used, asked := b.accounts.used["q"], sum{}
		asked.add(corev1.ResourceList(used))
		asked.sub(corev1.ResourceList(b.accounts.apart["q"]))
		expect(t, c.what, inShort(corev1.ResourceList(used))+", "+inShort(corev1.ResourceList(asked))+" by spec", c.want)
	}
	b.Pods().Remove(seenPod(pod("v", "", true), 99))
	usedNow(b)
	expect(t, "in the end", inShort(corev1.ResourceList(b.accounts.apart["q"])), "0/0")
}

// When the tree changes, the charges of pods move with it.
func TestAccountsTree(t *testing.T) {
	b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("q", "", "cpu=9"))
	b.Pods().Put(seenPod(makePod("q/p", "u", "cpu=2"), 1))
	expect(t, "before", usedNow(b), "q 2/0 top 0/0 ")
	b.grow(makeQuota("top", "", "cpu=9"), makeQuota("q", "top", "cpu=9"))
	expect(t, "after", usedNow(b), "q 2/0 top 2/0 ")
}

// A reservation whose pod appeared and was deleted is dropped, for as long as such a reservation can exist.
func TestAccountsGone(t *testing.T) {
	for _, c := range []struct {
		what string
		how  func(*bench, *quota.Pod)
	}{
		{"removed", func(b *bench, p *quota.Pod) { b.Pods().Put(seenPod(p, 1)); b.Pods().Remove(seenPod(p, 2)) }},
		{"removed unseen", func(b *bench, p *quota.Pod) { b.Pods().Remove(seenPod(p, 2)) }},
		{"followed by another", func(b *bench, p *quota.Pod) {
			b.Pods().Put(seenPod(p, 1))
			b.Pods().Put(seenPod(makePod("q/p", "v", "cpu=1"), 3))
		}},
		{"not in a list", func(b *bench, p *quota.Pod) { b.Pods().Put(seenPod(p, 1)); b.Pods().Replace(nil, "3") }},
		{"another in a list", func(b *bench, p *quota.Pod) {
			b.Pods().Put(seenPod(p, 1))
			b.Pods().Replace([]Seen{seenPod(makePod("q/p", "v", "cpu=1"), 3)}, "3")
		}},
		{"old when it was removed", func(b *bench, p *quota.Pod) {
			b.Pods().Put(seenPod(p, 1))
			b.clock = b.clock.Add(10 * DefaultExpiry)
			b.Pods().Remove(seenPod(p, 2))
		}},
	} {
		b := lay(t, makeQuota("q", "", "cpu=9"))
		p := makePod("q/p", "u", "cpu=2")
		room := b.room(p, true)
		if stands, _ := b.accounts.pending(&room); !stands {
			t.Errorf("%s: not awaited at first", c.what)
		}
		c.how(b, p)
		if stands, since := b.accounts.pending(&room); stands || since != "" {
			t.Errorf("%s: awaited: %v, since %q", c.what, stands, since)
		}
		b.clock = b.clock.Add(3 * DefaultExpiry)
		usedNow(b)
		expect(t, c.what+": remembered in the end", len(b.accounts.gone), 0)
	}
}

// The version of an account is the version that introduced its charge.
func TestAccountsSince(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"), makeQuota("o", "", "cpu=9"))
	p := makePod("q/p", "u", "cpu=2")
	step := func(what string, change func(*quota.Pod), version int, want string) {
		next := *p
		change(&next)
		p = &next
		b.Pods().Put(seenPod(p, version))
		expect(t, what, b.accounts.pods["q/p"].since, want)
	}
	step("new", func(*quota.Pod) {}, 5, "5")
	step("bound", func(p *quota.Pod) { p.Node = "n" }, 6, "5")
	step("resized", func(p *quota.Pod) { p.Requests = amounts("cpu=3") }, 7, "7")
	step("written otherwise", func(p *quota.Pod) { p.Requests = amounts("cpu=3000m") }, 8, "7")
	step("moved", func(p *quota.Pod) { p.Label = "o" }, 9, "9")
	step("ended", func(p *quota.Pod) { p.Ended = true }, 10, "10")
	step("another", func(p *quota.Pod) { p.UID = types.UID("v") }, 11, "11")
	expect(t, "version", b.accounts.version, "11")
	b.Pods().Reached("9")
	expect(t, "version after an older bookmark", b.accounts.version, "11")
	b.Pods().Reached("12")
	expect(t, "version after a bookmark", b.accounts.version, "12")
}

// TestRestoredPods: after a list from a store that was restored from a backup, a replica knows the pods up to that list, and not up
// to what it had observed before: it would take itself for up to date until the versions have come there again.
func TestRestoredPods(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	b.Pods().Put(seenPod(makePod("q/a", "a", "cpu=1"), 900))
	b.Pods().Replace(nil, "500")
	_, err := b.plan(t, recordOf(t, "510"), ask(makePod("q/p", "u", "cpu=1")))
	expect(t, "behind", errors.Is(err, errBehind), true)
	last, _ := b.accounts.passed("500")
	expect(t, "the newest pod", last, "")
	b.Pods().Put(seenPod(makePod("q/b", "b", "cpu=9"), 510))
	made, err := b.plan(t, recordOf(t, "510"), ask(makePod("q/p", "u", "cpu=1")))
	expect(t, "not behind", b.judged(made.verdicts[0].PodVerdict, err), "full q cpu: 1+9+0 of 9")
}

// TestRestoredResize: what was known of a pod at a version after the restore does not end the reservation of a resize that is judged on
// the restored one.
func TestRestoredResize(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	pod := makePod("q/a", "a", "cpu=1")
	b.Pods().Put(seenPod(pod, 900))
	b.Pods().Replace([]Seen{seenPod(pod, 500)}, "501")
	stands, _ := b.accounts.pending(&reservation{UID: pod.UID, Pod: podKey(pod), Quota: "q", Update: true, From: "500"})
	expect(t, "stands", stands, true)
}
