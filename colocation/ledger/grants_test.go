package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// admit admits pods of one CPU in the quota q, with numbers from the first to the last.
func (w *watcher) admit(t *testing.T, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		if got := w.b.reserve(w.Ledger, ask(onePod(i))); got != "granted" {
			t.Fatalf("pod %d: %s", i, got)
		}
	}
}

// onePod returns the pod of a number.
func onePod(i int) *quota.Pod {
	return makePod(fmt.Sprintf("q/p%d", i), fmt.Sprintf("u%d", i), "cpu=1")
}

// cutOff lets nothing be heard of the replica any more.
func (w *watcher) cutOff() {
	w.line.cut.Store(true)
}

// remembered returns the number of quotas in which the replica remembers pods.
func (w *watcher) remembered(b *bench) int {
	w.Ledger.grants.mu.Lock()
	defer w.Ledger.grants.mu.Unlock()
	return len(w.Ledger.grants.in[keyOf(b.store.get("q").Quota)].of)
}

// found returns the number of grants of others that the replica remembers.
func (w *watcher) found() int {
	w.Ledger.grants.mu.Lock()
	defer w.Ledger.grants.mu.Unlock()
	return len(w.Ledger.grants.found)
}

// grants returns what the record of a quota says of grants, and the number of its other reservations.
func (b *bench) grants(t *testing.T, name string) string {
	t.Helper()
	found, err := parseRecord(b.store.get(name).Record)
	if err != nil {
		t.Fatal(err)
	}
	text, pods := "", 0
	for _, r := range found.Pods {
		if r.Grant {
			text += fmt.Sprintf("%s %s: %s, ", r.By, r.Quota, inShort(r.request()))
		} else {
			pods++
		}
	}
	if found.Recall != "" {
		text += "recalled by " + found.Recall + ", "
	}
	return text + fmt.Sprint(pods, " pods")
}

// inBubble runs a test with one top quota and two replicas that take grants; the first has taken one.
func inBubble(t *testing.T, limit string, test func(t *testing.T, b *bench, r1, r2 *watcher)) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", limit))
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		r1.admit(t, 1, 5)
		test(t, b, r1, r2)
		r1.giveBack(t.Context())
		r2.giveBack(t.Context())
	})
}

// A replica that admits several pods takes a grant, and admits the next pods without a write.
func TestGrant(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		expect(t, "a grant for twice the pods", b.grants(t, "q"), "r1 q: 10/0, 5 pods")
		if record := b.store.get("q").Record; !strings.Contains(record, `{"pod":"quotas/_r1_q_q","quota":"q","request":{"cpu":"10"},"grant":true,"at":`) {
			t.Error(record)
		}
		writes := b.store.written()
		r1.admit(t, 6, 12)
		expect(t, "writes", b.store.written()-writes, 0)
		expect(t, "the record", b.grants(t, "q"), "r1 q: 10/0, 5 pods")
		r1.Pods().Put(seenPod(onePod(6), 3))
		r1.admit(t, 13, 13)
		time.Sleep(grantUse / 4)
		expect(t, "less than a quarter was left", b.record("q")[:7]+b.grants(t, "q"), "seen 3:r1 q: 21749m/0, 12 pods")
		expect(t, "writes", b.store.written()-writes, 1)
		expect(t, "granted", r1.Stats().Granted, 8)
		time.Sleep(3 * grantUse)
		expect(t, "given back when it is idle", b.grants(t, "q"), "12 pods")
		expect(t, "remembered", r1.remembered(b), 0)
	})
}

// Every replica counts the grants of others, whether or not it takes grants.
func TestGrantCounts(t *testing.T) {
	inBubble(t, "cpu=30", func(t *testing.T, b *bench, r1, r2 *watcher) {
		off := b.watcher("off")
		expect(t, "the grant", b.grants(t, "q"), "r1 q: 6249m/0, 5 pods")
		expect(t, "too big", b.reserve(off.Ledger, ask(makePod("q/x", "x", "cpu=26"))), "full q cpu: 26+0+11249m of 30")
		expect(t, "fits", b.reserve(off.Ledger, ask(makePod("q/y", "y", "cpu=18"))), "granted")
		v, err := off.Judge(t.Context(), ask(makePod("q/z", "z", "cpu=7")))
		expect(t, "a dry run counts on the room", b.judged(v, err), "granted")
		answer := off.asks(makePod("q/z", "z", "cpu=7"))
		time.Sleep(grantUse / 10)
		expect(t, "needs the room", soon(answer), "waits")
		r1.show("q")
		time.Sleep(grantUse / 10)
		off.show("q")
		expect(t, "the room", <-answer, "granted")
	})
}

// A replica gives back its grant for a pod that needs the room.
func TestGrantRecall(t *testing.T) {
	inBubble(t, "cpu=30", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.show("q")
		r1.admit(t, 6, 8)
		answer := r2.asks(makePod("q/big", "big", "cpu=20"))
		time.Sleep(grantUse / 10)
		expect(t, "without the room", soon(answer), "waits")
		expect(t, "the mark", b.grants(t, "q"), "r1 q: 6249m/0, recalled by r2, 5 pods")
		r1.admit(t, 9, 9) // it has not observed the mark
		r1.show("q")
		time.Sleep(grantUse / 10)
		expect(t, "given back", b.grants(t, "q"), "9 pods")
		r2.show("q")
		time.Sleep(grantUse / 10)
		expect(t, "it fits", soon(answer), "granted")
		r1.show("q")
		expect(t, "no more room", b.reserve(r1.Ledger, ask(makePod("q/more", "more", "cpu=2"))), "full q cpu: 2+0+29 of 30")
	})
}

// The grant of a replica that is gone counts until its last pod would have appeared, and all pods were observed.
func TestGrantOfTheDead(t *testing.T) {
	inBubble(t, "cpu=30", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.show("q")
		r1.admit(t, 6, 8)
		r1.cutOff()
		b.store.version = 500 // all pods are stored
		answer := r2.asks(makePod("q/big", "big", "cpu=20"))
		time.Sleep(grantEnd - time.Second)
		expect(t, "it may give back", soon(answer), "waits")
		time.Sleep(time.Second + maxChange)
		expect(t, "it does not", soon(answer), "full q cpu: 20+0+11249m of 30")
		r2.Pods().Reached("600")
		r2.sweep(t.Context())
		expect(t, "its pods may still be stored", b.grants(t, "q"), "r1 q: 6249m/0, 5 pods")
		b.store.version = 800
		time.Sleep(DefaultExpiry - maxChange)
		r2.sweep(t.Context())
		expect(t, "the pods are not observed", b.grants(t, "q"), "r1 q: 6249m/0, 0 pods")
		for i := 6; i <= 8; i++ {
			r2.Pods().Put(seenPod(onePod(i), 700+i))
		}
		r2.Pods().Reached("900") // a bookmark of this watch
		r2.sweep(t.Context())
		expect(t, "dropped", b.record("q"), "seen 708:")
		expect(t, "the room is free", b.reserve(r2.Ledger, ask(makePod("q/big", "big", "cpu=20"))), "granted")
		r2.sweep(t.Context())
		expect(t, "found", r2.found(), 0)
	})
}

// An announced change ends the grants that it concerns, before it is admitted.
func TestGrantAndChange(t *testing.T) {
	for _, changed := range []string{"q", "top"} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, makeQuota("top", "", "cpu=200"), makeQuota("q", "top", "cpu=100"))
			r1, r2 := b.watcher("r1"), b.watcher("r2")
			r1.admit(t, 1, 5)
			r2.show("top")
			parent := map[string]string{"q": "top"}[changed]
			done := make(chan bool)
			go func() { r2.announce(t, makeQuota(changed, parent, "cpu=9")); close(done) }()
			time.Sleep(grantUse / 10)
			select {
			case <-done:
				t.Error("admitted at once")
			default:
			}
			r1.admit(t, 6, 6) // it has not observed that
			r1.show("top")
			granted := r1.Stats().Granted
			answer := r1.asks(onePod(7))
			time.Sleep(grantUse / 10)
			expect(t, changed+" pods without a write", r1.Stats().Granted-granted, 0)
			expect(t, changed+" after the change", soon(answer), map[string]string{"q": "waits", "top": "granted"}[changed])
			expect(t, changed+" the record", b.grants(t, "top"), map[string]string{"q": "6 pods", "top": "7 pods"}[changed])
			r2.show("top")
			<-done
			r1.giveBack(t.Context())
			time.Sleep(time.Minute)
		})
	}
}

// The announcer waits for a replica of which nothing is heard, and what it has announced still holds after that.
func TestGrantAndLongChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=200"), makeQuota("q", "top", "cpu=100"))
		r1, r2, r3 := b.watcher("r1"), b.watcher("r2"), b.watcher("r3")
		r1.admit(t, 1, 5)
		r1.cutOff()
		r2.show("top")
		began := time.Now()
		done := make(chan time.Duration, 1)
		go func() { r2.announce(t, makeQuota("q", "top", "cpu=9")); done <- time.Since(began) }()
		time.Sleep(grantUse / 10)
		r3.show("top")
		answer := r3.asks(makePod("q/x", "x", "cpu=5"))
		for range 30 {
			time.Sleep(grantUse / 20)
			r3.show("top")
			r2.show("top")
		}
		expect(t, "waited", (<-done).Round(100*time.Millisecond), grantEnd.Round(100*time.Millisecond))
		time.Sleep(maxChange / 4)
		b.store.set(makeQuota("q", "top", "cpu=9"))
		expect(t, "until it is stored", soon(answer), "waits")
		r3.show("top", "q")
		time.Sleep(grantUse / 20)
		expect(t, "then", soon(answer), "full q cpu: 5+0+15 of 9")
		r1.giveBack(t.Context())
	})
}

// An announcement to a quota that is gone meanwhile waits for nobody.
func TestGrantsOfNoQuota(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=100"))
	b.awaitGrants(t.Context(), makeQuota("gone", "", ""), b.tree, []string{"gone"})
}

// A change that concerns no grant makes nobody write.
func TestGrantAndOtherChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=200"), makeQuota("q", "top", "cpu=100"), makeQuota("other", "top", "cpu=100"))
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		b.store.disturb(func() error { time.Sleep(time.Millisecond); return nil }, nil)
		r1.admit(t, 1, 8)
		r2.show("top")
		r2.announce(t, makeQuota("other", "top", "cpu=9"))
		writes := b.store.written()
		r1.show("top")
		time.Sleep(grantUse / 4)
		expect(t, "writes", b.store.written()-writes, 0)
		granted := r1.Stats().Granted
		r1.admit(t, 9, 9)
		expect(t, "granted", r1.Stats().Granted-granted, 1)
		r1.giveBack(t.Context())
	})
}

// While nobody knows whether a write has taken effect, only what is allowed in both cases is spent; and after a conflict
// what was allowed before.
func TestGrantUnknownOutcome(t *testing.T) {
	for what, disturb := range map[string]func(b *bench, err error){
		"lost answer":  func(b *bench, err error) { b.store.disturb(nil, func() error { return err }) },
		"lost request": func(b *bench, err error) { b.store.disturb(func() error { return err }, nil) },
		"conflict":     func(b *bench, err error) { b.store.disturb(func() error { return ErrConflict }, nil) },
	} {
		inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
			disturb(b, errors.New("lost"))
			r1.admit(t, 6, 13) // less than a quarter is left
			time.Sleep(grantUse / 10)
			writes := r1.Stats().Writes
			r1.admit(t, 14, 15)
			expect(t, what+": spent", r1.Stats().Granted, 10)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			v, err := r1.Reserve(ctx, ask(onePod(16)))
			if err == nil || r1.Stats().Writes == writes {
				t.Error(what, "admitted beyond the grant", b.judged(v, err))
			}
			b.store.disturb(nil, nil)
			time.Sleep(grantUse)
			r1.admit(t, 16, 16)
			time.Sleep(3 * grantUse)
			if got := b.grants(t, "q"); got != "16 pods" {
				t.Error(what, got)
			}
		})
	}
}

// Pods that a full record cannot name are held by the grant, and are dropped like others if they do not appear.
func TestGrantFullRecord(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r1.admit(t, 6, 8)
		found, _ := parseRecord(b.store.get("q").Record)
		for i := 0; ; i++ {
			one := b.room(makePod(fmt.Sprintf("%s/%d%s", []string{"q", "x", "y"}[i%3], i, strings.Repeat("x", 200)), "", ""), false)
			one.Quota = "q"
			_ = one.encode()
			if all, _ := found.size(); all+len(one.json) >= maxRecord {
				break
			}
			found.Pods = append(found.Pods, one)
		}
		key := keyOf(b.store.get("q").Quota)
		if _, err := b.store.swap(key, b.store.get("q").Version, found.text()); err != nil {
			t.Fatal(err)
		}
		r1.show("q")
		time.Sleep(3 * grantUse)
		if got := b.grants(t, "q"); !strings.HasPrefix(got, "r1 q: 10/0, ") {
			t.Error(got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		v, err := r1.Reserve(ctx, ask(makePod("q/big", "big", "cpu=88")))
		expect(t, "needs its own grant", errors.Is(err, context.DeadlineExceeded), b.judged(v, err) != "")
		r1.Pods().Put(seenPod(onePod(6), 2))
		b.store.pods, b.store.podVersion = map[types.NamespacedName]*quota.Pod{{Namespace: "q", Name: "p6"}: onePod(6)}, "2"
		time.Sleep(2 * DefaultExpiry)
		r1.sweep(t.Context())
		expect(t, "all are dropped", b.record("q"), "seen 2:")
	})
}

// A replica that is behind gives back its grant as soon as it is not.
func TestGrantBehind(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.show("q")
		r2.Pods().Put(seenPod(onePod(1), 2))
		r2.sweep(t.Context()) // others must have observed the pods up to that
		r1.show("q")
		time.Sleep(3 * grantUse)
		expect(t, "behind", b.grants(t, "q"), "r1 q: 10/0, 4 pods")
		r1.Pods().Reached("2")
		time.Sleep(grantUse / 10)
		expect(t, "not behind", b.grants(t, "q"), "4 pods")
	})
}

// A replica that ends gives back its grants and spends no more.
func TestGrantAtTheEnd(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		ctx, end := context.WithCancel(t.Context())
		go r1.Run(ctx)
		r1.admit(t, 6, 8)
		conflicts := 2
		b.store.disturb(func() error {
			if conflicts--; conflicts >= 0 {
				return ErrConflict
			}
			return nil
		}, nil)
		end()
		time.Sleep(grantUse)
		expect(t, "given back", b.grants(t, "q"), "8 pods")
		granted := r1.Stats().Granted
		r1.admit(t, 9, 18)
		expect(t, "without a write", r1.Stats().Granted-granted, 0)
		expect(t, "no more grants", b.grants(t, "q"), "18 pods")
	})
}

// A grant is not spent when its time is over by any clock: the monotonic one stands still while a machine is suspended.
func TestGrantUsable(t *testing.T) {
	begun := time.Now()
	suspended := begun.Add(time.Second)
	*(*uint64)(unsafe.Pointer(&suspended)) += 3 << 30 // three more seconds for the wall clock alone
	slowed := begun.Add(3 * time.Second)
	*(*uint64)(unsafe.Pointer(&slowed)) -= 2 << 30 // and two fewer
	for what, one := range map[string]struct {
		now  time.Time
		want bool
	}{
		"soon":      {begun.Add(time.Second), true},
		"late":      {begun.Add(grantUse), false},
		"suspended": {suspended, false},
		"slowed":    {slowed, false},
		"set back":  {begun.Round(0).Add(-time.Second), false},
	} {
		g := granted{begun: begun}
		expect(t, what, g.usable(one.now), one.want)
	}
	expect(t, "the monotonic clock", suspended.Sub(begun), time.Second)
	expect(t, "none", (&granted{}).usable(begun), false)
}

// A write that began before the current period of the demand changes nothing of it.
func TestDemandTurn(t *testing.T) {
	now := time.Now()
	d := demand{since: now, pods: 3}
	d.rotate(now.Add(-time.Second))
	expect(t, "pods", d.pods, 3)
	d.rotate(now.Add(grantUse))
	expect(t, "the period before", d.last, 3)
	d.rotate(now.Add(4 * grantUse))
	expect(t, "long ago", d.last, 0)
}

// All grants of a record count for the next one.
func TestGrantShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=60"), makeQuota("a", "top", "cpu=60"), makeQuota("b", "top", "cpu=60"))
		b.store.disturb(func() error { time.Sleep(time.Millisecond); return nil }, nil)
		r := b.watcher("r1")
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				b.reserve(r.Ledger, ask(makePod(fmt.Sprintf("%s/p%d", []string{"a", "b"}[i%2], i), fmt.Sprint(i), "cpu=1")))
			})
		}
		all.Wait()
		expect(t, "grants", b.grants(t, "top"), "r1 a: 10/0, r1 b: 9999m/0, 10 pods")
		r.giveBack(t.Context())
	})
}

// If the new grant is smaller than what is left of the old one, the smaller counts until the outcome of the write is known.
func TestGrantSmaller(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.show("q")
		expect(t, "another pod", b.reserve(r2.Ledger, ask(makePod("q/big", "big", "cpu=66"))), "granted")
		r1.show("q")
		r1.admit(t, 6, 6)
		b.store.disturb(nil, func() error { return errors.New("lost") })
		time.Sleep(grantUse/2 + time.Millisecond)
		r1.admit(t, 7, 7)
		time.Sleep(grantUse / 20)
		expect(t, "the new one", b.grants(t, "q"), "r1 q: 6749m/0, 8 pods")
		for i := range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = r1.Reserve(ctx, ask(onePod(8+i)))
			cancel()
		}
		expect(t, "spent", r1.Stats().Granted, 8)
		b.store.disturb(nil, nil)
		time.Sleep(grantUse)
	})
}

// A plan is not written if more was spent meanwhile than it knows and allows.
func TestGrantSpentMeanwhile(t *testing.T) {
	of := func(n int) sum { return sum(amounts(fmt.Sprintf("cpu=%d", n))) }
	key := keyOf(makeQuota("q", "", ""))
	for room, want := range map[int]bool{1: false, 2: true} {
		g := grants{in: map[types.NamespacedName]*granted{key: {of: map[string]*grant{"q": {total: of(5), limit: of(9)}}}}}
		got := g.begin(key, &grantPlan{at: 1, of: map[string]plannedGrant{"q": {total: of(3), room: of(room)}}})
		expect(t, fmt.Sprint("room for ", room), got, want)
	}
	g := grants{in: map[types.NamespacedName]*granted{key: {of: map[string]*grant{"q": {total: of(5), limit: of(9)}}}}}
	expect(t, "a quota that the plan does not know", g.begin(key, &grantPlan{}), false)
}

// A replica spends no grant by an older tree than the one that the record was decided by, nor by an older top.
func TestGrantAndOlderTree(t *testing.T) {
	for what, change := range map[string]func(b *bench){
		"tree": func(b *bench) {
			now := b.store.get("q")
			found, _ := parseRecord(now.Record)
			found.Tree = now.Version
			_, _ = b.store.swap(keyOf(now.Quota), now.Version, found.text())
		},
		"top": func(b *bench) { b.store.set(makeQuota("q", "", "cpu=9")) },
	} {
		inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
			r1.admit(t, 6, 6)
			change(b)
			r1.objects.update(b.store.get("q")) // by a read, before the watch
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, _ = r1.Reserve(ctx, ask(onePod(7)))
			expect(t, what+": granted", r1.Stats().Granted, 1)
			r1.show("q")
		})
	}
}

// A pod whose reservation is dropped because it was observed must be observed by all, also if no record has named it.
func TestGrantEntersRevoked(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	b.Pods().Put(seenPod(onePod(1), 7))
	spent := []reservation{b.room(onePod(1), false), b.room(onePod(2), false), b.room(onePod(3), false)}
	b.revoked.add("", spent[:2]...)
	var next record
	b.accounts.with(b.tree, func(a *accounts) { expect(t, "fits", a.enter(&next, spent, b.revoked), true) })
	expect(t, "entered", inBrief(next.text()), "seen 7: u3 q/p3@q 1/0")
}

// The grants in a quota that the tree does not have any more end with its change, too.
func TestGrantOfDeletedQuota(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.show("q")
		r2.known.Store(quota.NewTree(nil))
		old := b.store.get("q")
		done := make(chan error, 1)
		go func() {
			done <- r2.Announce(t.Context(), QuotaChange{Old: old.Quota, From: old.Version})
		}()
		time.Sleep(grantUse / 10)
		expect(t, "the mark", b.grants(t, "q"), "r1 q: 10/0, recalled by r2, 5 pods")
		r1.show("q")
		time.Sleep(grantUse / 10)
		r2.show("q")
		err := <-done
		expect(t, "given back", b.grants(t, "q"), "5 pods")
		expect(t, "pods that have not appeared", errors.Is(err, admit.ErrNotReady), true)
	})
}

// A quota that the tree has and the watch of the ledger has not shown yet is reported, with the gate, too.
func TestReportBeforeTheWatch(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=10"))
	w := b.watcher("r1")
	w.known.Store(b.tree.With(map[types.NamespacedName]*quota.Quota{{Namespace: quotaNamespace, Name: "new"}: makeQuota("new", "", "cpu=1")}))
	if rows, err := w.Report(); err != nil || len(rows) != 2 {
		t.Error(rows, err)
	}
}

// The clock is read after the record: a replica that stood still in between does not take what it finds for older than it is.
func TestRenewAfterFreeze(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.options.Now = func() time.Time {
			r2.options.Now = b.now
			asked := b.now()
			time.Sleep(2 * grantEnd)
			r1.show("q")
			r1.admit(t, 6, 12)
			r2.show("q")
			return asked
		}
		if err := r2.renewOnce(t.Context(), b.store.get("q").Quota); err != nil {
			t.Error(err)
		}
		found, _ := parseRecord(b.store.get("q").Record)
		expect(t, b.grants(t, "q"), r2.Ledger.grants.longest(found, r2.options.Now(), func(*reservation) bool { return true }), grantEnd)
	})
}
