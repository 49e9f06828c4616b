package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// phantoms admits pods that are never created, until their namespace may reserve no more.
func phantoms(b *bench, namespace string) (n int) {
	for ; ; n++ {
		p := makePod(fmt.Sprintf("%s/web-7d9c6b5f4-%05d", namespace, n), fmt.Sprintf("7b0c1d8e-0000-4000-8000-%s%08d", namespace, n), "cpu=1")
		if b.reserve(b.Ledger, ask(p)) != "granted" {
			return n
		}
	}
}

// TestPhantoms: pods that are never created do not block another namespace, and are released when they expire.
func TestPhantoms(t *testing.T) {
	b := lay(t, makeQuota("top", "", "cpu=100k"), makeQuota("q", "top", "cpu=100k"), makeQuota("o", "top", "cpu=100k"), makeQuota("victim", "top", "cpu=100k"))
	victim := ask(makePod("victim/v", "v", "cpu=1"))
	if n := phantoms(b, "q"); n < 300 {
		t.Errorf("only %d", n)
	}
	expect(t, "beside one namespace of phantoms", b.reserve(b.Ledger, victim), "granted")
	phantoms(b, "o")
	b.clock = b.clock.Add(DefaultExpiry + time.Second)
	expect(t, "when they have expired", b.reserve(b.Ledger, victim), "granted")
	b.sweep(context.Background())
	b.sweep(context.Background())
	if left := b.Stats().Reservations; left > 2 {
		t.Errorf("%d are left", left)
	}
}

// TestStubbornDoubts: expired reservations that cannot be confirmed do not block the others.
func TestStubbornDoubts(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=1000"))
	b.store.pods, b.store.podVersion = map[types.NamespacedName]*quota.Pod{}, "999" // later than what is seen
	b.Pods().Reached("5")
	for i := range 200 {
		p := makePod(fmt.Sprintf("q/p%d", i), fmt.Sprintf("u%d", i), "cpu=1")
		expect(t, p.Name, b.reserve(b.Ledger, ask(p)), "granted")
		if i < maxConfirmations+5 {
			b.store.storePod(types.NamespacedName{Namespace: "q", Name: p.Name}, p)
		}
	}
	b.clock = b.clock.Add(time.Hour)
	for range 40 {
		b.sweep(context.Background())
	}
	expect(t, "left", b.Stats().Reservations, maxConfirmations+5)
}

// TestOneName: however often a pod of one name is created, it has one entry, bounded by the resources that its quotas
// limit.
func TestOneName(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=10"))
	for i := range 500 {
		p := makePod("q/x", fmt.Sprintf("u%d", i), "cpu=1")
		for n := range 50 {
			p.Requests[corev1.ResourceName(fmt.Sprintf("%s.example.com/r%d", strings.Repeat("a", 200), n))] = p.Requests["cpu"]
		}
		expect(t, "again", b.reserve(b.Ledger, ask(p)), "granted")
	}
	found, err := parseRecord(b.store.objects[types.NamespacedName{Namespace: quotaNamespace, Name: "q"}].Record)
	if err != nil || len(found.Pods) != 1 || !found.Pods[0].Tries || len(found.Pods[0].Request) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	b.Pods().Put(seenPod(makePod("q/x", "u499", "cpu=1"), 5))
	b.Pods().Remove(seenPod(makePod("q/x", "u499", "cpu=1"), 6))
	expect(t, "after one of them came and went, the others may", b.reserve(b.Ledger, ask(makePod("q/y", "y", "cpu=10"))), "full q cpu: 10+0+1 of 10")
}

// TestLeave: reservations of a quota count with it when it becomes the top of its own tree.
func TestLeave(t *testing.T) {
	top, child := makeQuota("top", "", "cpu=10"), makeQuota("c", "top", "cpu=1")
	b := lay(t, top, child)
	expect(t, "below the top", b.reserve(b.Ledger, ask(makePod("c/a", "a", "cpu=1"))), "granted")
	alone := makeQuota("c", "", "cpu=1")
	b.store.objects[keyOf(child)] = Object{Quota: alone, Version: "7"}
	b.objects.update(b.store.objects[keyOf(child)])
	b.grow(top, alone)
	expect(t, "alone", b.reserve(b.Ledger, ask(makePod("c/b", "b", "cpu=1"))), "full c cpu: 1+0+1 of 1")
}

// TestRestoredStore: when resourceVersions go back, as after a restore from a backup, the older knowledge is discarded.
func TestRestoredStore(t *testing.T) {
	q := makeQuota("q", "", "cpu=10")
	b := lay(t, q)
	b.store.objects[keyOf(q)] = Object{Quota: q, Version: "1000"}
	b.Quotas().Put(Seen{Key: "x", Version: "1000", Object: q})
	expect(t, "before", b.reserve(b.Ledger, ask(makePod("q/a", "a", "cpu=1"))), "granted")
	b.store.objects[keyOf(q)] = Object{Quota: q, Version: "500"}
	b.Quotas().Replace([]Seen{{Key: "x", Version: "500", Object: q}}, "500")
	expect(t, "after a list", b.reserve(b.Ledger, ask(makePod("q/b", "b", "cpu=1"))), "granted")
	b.store.objects[keyOf(q)] = Object{Quota: q, Version: "400"}
	expect(t, "before any list", b.reserve(b.Ledger, ask(makePod("q/c", "c", "cpu=1"))), "granted")
}

// TestClockAhead: a reservation from a clock that was far ahead is not held until that time.
func TestClockAhead(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=1"))
	now := b.clock
	b.clock = b.clock.Add(365 * 24 * time.Hour)
	expect(t, "ahead", b.reserve(b.Ledger, ask(makePod("q/a", "a", "cpu=1"))), "granted")
	b.clock = now.Add(time.Hour)
	expect(t, "put right", b.reserve(b.Ledger, ask(makePod("q/b", "b", "cpu=1"))), "granted")
}
