package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// First come, first served; a pod that does not fit leaves the capacity to the next.
func TestPlanOrder(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=4"))
	made, err := b.plan(t, "", ask(makePod("q/a", "a", "cpu=3")), ask(makePod("q/b", "b", "cpu=2")), ask(makePod("q/c", "c", "cpu=1")),
		ask(makePod("q/d", "d", "cpu=1")))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"granted", "full q cpu: 2+0+3 of 4", "granted", "full q cpu: 1+0+4 of 4"} {
		expect(t, fmt.Sprint(i), b.judged(made.verdicts[i].PodVerdict, made.verdicts[i].err), want)
	}
	expect(t, "record", inBrief(made.next.text()), "seen : a q/a@q 3/0 c q/c@q 1/0")
}

// Which reservations are dropped from a record, and which version of the pods the record then requires.
func TestPlanDrops(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=100"))
	seen, ended, gone, moved := makePod("q/seen", "seen", "cpu=1"), makePod("q/ended", "ended", "cpu=1"), makePod("q/gone", "gone", "cpu=1"), makePod("q/moved", "moved", "cpu=1")
	old, fresh, unheard := makePod("q/old", "old", "cpu=1"), makePod("q/fresh", "fresh", "cpu=1"), makePod("q/unheard", "unheard", "cpu=1")
	over := *ended
	over.Ended = true
	b.Pods().Put(seenPod(seen, 3))
	b.Pods().Put(seenPod(gone, 4))
	b.Pods().Put(seenPod(moved, 5))
	b.Pods().Put(seenPod(&over, 6))
	b.Pods().Remove(seenPod(gone, 9))
	rooms := []reservation{b.room(seen, false), b.room(ended, true), b.room(gone, true), b.room(moved, true), b.room(old, false), b.room(fresh, false), b.room(unheard, false)}
	rooms[4].At -= (DefaultExpiry + time.Second).Milliseconds()
	b.revoked.withdraw(rooms[6])
	made, err := b.plan(t, recordOf(t, "2", rooms...), ask(makePod("q/n", "n", "cpu=1")))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "record", inBrief(made.next.text()), "seen 6: moved q/moved@q 1/0 update old q/old@q 1/0 fresh q/fresh@q 1/0 n q/n@q 1/0")
	expect(t, "dropped", made.dropped, 4)
	expect(t, "expired", len(made.expired), 1)
}

// The reservation for a pod that was moved or resized is held although the pod already looks like the result: it may
// have had that form before and changed since.
func TestPlanUpdates(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=4"))
	big, small := makePod("q/p", "u", "cpu=4"), makePod("q/p", "u", "cpu=1")
	b.Pods().Put(seenPod(big, 3))
	expect(t, "grown again, before this replica saw it small", b.reserve(b.Ledger, askChange(small, big)), "granted")
	expect(t, "another, when it is still seen big", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+4+0 of 4")
	b.Pods().Put(seenPod(small, 5))
	expect(t, "another, when it is seen small", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+1+3 of 4")
	b.clock = b.clock.Add(DefaultExpiry + time.Second)
	expect(t, "another, when it has not grown", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=3"))), "granted")
}

// The reservation of an update ends when any version later than the judged one is seen: the update is that version, or
// was never stored.
func TestPlanWithdrawn(t *testing.T) {
	const from = "5"
	one, three := makePod("q/p", "u", "cpu=1"), makePod("q/p", "u", "cpu=3")
	held, heldThree, heldSix := shrinking("q/p", "u", "cpu=1", "cpu=4"), shrinking("q/p", "u", "cpu=3", "cpu=4"), makePod("q/p", "u", "cpu=6")
	moved := makePod("q/p", "u", "cpu=1")
	moved.Label, moved.Labelled = "o", true
	ended := makePod("q/p", "u", "cpu=1")
	ended.Ended = true
	put := func(p *quota.Pod, version int) func(*bench) {
		return func(b *bench) { b.Pods().Put(seenPod(p, version)) }
	}
	for _, c := range []struct {
		what           string
		stored, update *quota.Pod
		then           []func(*bench)
		want           string // reserved and used in q, as another pod hears it
		seen           string // of the record after the next write
	}{
		{"nothing is seen", one, three, nil, "2+1", ""},
		{"it is seen", one, three, []func(*bench){put(three, 6)}, "0+3", "6"},
		{"it is seen, and withdrawn", one, three, []func(*bench){put(three, 6), put(one, 7)}, "0+1", "7"},
		{"it is withdrawn, and nothing else is seen", one, three, []func(*bench){put(one, 7)}, "0+1", "5"},
		{"it lost its race against a status", one, three, []func(*bench){put(one, 6)}, "0+1", "5"},
		{"it lost against a status and is asked for again", one, three, []func(*bench){put(one, 6), func(b *bench) {
			expect(t, "again", b.reserve(b.Ledger, askUpdate(one, "6", three)), "granted")
		}}, "2+1", ""},
		{"an older version arrives", one, three, []func(*bench){put(one, 5)}, "2+1", ""},
		{"a list", one, three, []func(*bench){func(b *bench) { b.Pods().Replace([]Seen{seenPod(three, 6)}, "9") }}, "0+3", "6"},
		{"less than the node holds", held, heldThree, nil, "0+4", ""},
		{"more than the node holds", held, heldSix, nil, "2+4", ""},
		{"more than the node holds, which shrinks instead", held, heldSix, []func(*bench){put(one, 6)}, "0+1", "6"},
		{"it moves to another tree", one, moved, []func(*bench){put(moved, 6)}, "0+0", ""},
		{"it ends", one, three, []func(*bench){put(ended, 6)}, "0+0", "6"},
		{"it is deleted", one, three, []func(*bench){func(b *bench) { b.Pods().Remove(seenPod(one, 6)) }}, "0+0", ""},
		{"another has its name", one, three, []func(*bench){put(makePod("q/p", "w", "cpu=1"), 6)}, "0+1", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := lay(t, makeQuota("q", "", "cpu=8"), makeQuota("o", "", "cpu=8"))
			put(c.stored, 5)(b)
			expect(t, "the update", b.reserve(b.Ledger, askUpdate(c.stored, from, c.update)), "granted")
			for _, then := range c.then {
				then(b)
			}
			v, err := b.Judge(t.Context(), ask(makePod("q/x", "x", "cpu=100")))
			if err != nil || len(v.Excess) != 1 {
				t.Fatal(v, err)
			}
			expect(t, "counted", fmt.Sprint(&v.Excess[0].Reserved, "+", &v.Excess[0].Used), c.want)
			expect(t, "the next", b.reserve(b.Ledger, ask(makePod("q/y", "y", "cpu=1"))), "granted")
			q, _ := b.tree.Get("q")
			if written, err := b.objects.record(b.store.objects[keyOf(q)]); err != nil || written.Seen != c.seen {
				t.Errorf("the record requires %q, %v, want %q", written.Seen, err, c.seen)
			}
		})
	}
}

// What is remembered of versions ends with the reservations that it matters for.
func TestAccountsTouched(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	for version := range 5 {
		b.Pods().Put(seenPod(makePod("q/p", "u", "cpu=1"), version+1))
	}
	expect(t, "remembered", len(b.accounts.touched), 1)
	b.clock = b.clock.Add(3 * DefaultExpiry)
	usedNow(b)
	expect(t, "remembered in the end", len(b.accounts.touched), 0)
}

// The reservation for a pod that had ended and runs again is held while the pod is still observed as ended.
func TestPlanRevived(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=4"))
	ended, running := makePod("q/p", "u", "cpu=4"), makePod("q/p", "u", "cpu=4")
	ended.Ended = true
	b.Pods().Put(seenPod(ended, 3))
	expect(t, "runs again", b.reserve(b.Ledger, askChange(ended, running)), "granted")
	expect(t, "another, at once", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+0+4 of 4")
	b.Pods().Put(seenPod(ended, 4))
	expect(t, "another, when it is still seen as ended", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+0+4 of 4")
	b.Pods().Put(seenPod(running, 5))
	expect(t, "another, when it is seen", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+4+0 of 4")
}

// A repeated request for less does not reduce what was granted before.
func TestPlanForLess(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=4 memory=4"))
	expect(t, "created", b.reserve(b.Ledger, ask(makePod("q/p", "u", "cpu=4"))), "granted")
	expect(t, "resized", b.reserve(b.Ledger, askChange(makePod("q/p", "u", "cpu=4"), makePod("q/p", "u", "cpu=1 memory=1"))), "granted")
	expect(t, "another", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+0+4 of 4")
}

// A replica that has not observed a pod whose reservation another replica dropped must not decide.
func TestPlanBehind(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=4"))
	b.Pods().Replace(nil, "8")
	text := recordOf(t, "9")
	_, err := b.plan(t, text, ask(makePod("q/p", "u", "cpu=1")))
	if !errors.Is(err, errBehind) || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("behind: %v", err)
	}
	b.Pods().Reached("9")
	if made, err := b.plan(t, text, ask(makePod("q/p", "u", "cpu=1"))); err != nil || made.verdicts[0].held == nil {
		t.Errorf("not behind: %+v, %v", made, err)
	}
}

// A record is limited to the size of an annotation. A pod that does not fit in is asked to retry, and the others are
// served.
func TestPlanFull(t *testing.T) {
	b := lay(t, makeQuota("top", "", "cpu=1M"), makeQuota("q", "top", "cpu=1M"), makeQuota("o", "top", "cpu=1M"))
	var asks []quota.Request
	for i := range 3000 {
		asks = append(asks, ask(makePod(fmt.Sprintf("q/pod-with-a-rather-long-name-%d", i), fmt.Sprintf("uid-%d", i), "cpu=1")))
	}
	alone, err := b.plan(t, "", asks...)
	if err != nil || len(alone.next.text()) > maxRecord/2+100 || len(alone.next.text()) < maxRecord*4/10 {
		t.Fatalf("one quota takes %d bytes, %v", len(alone.next.text()), err)
	}
	for i := range 3000 {
		asks = append(asks, ask(makePod(fmt.Sprintf("o/pod-with-a-rather-long-name-%d", i), fmt.Sprintf("uid-o%d", i), "cpu=1")))
	}
	made, err := b.plan(t, "", asks...)
	if err != nil || len(made.next.text()) > maxRecord+100 || len(made.next.text()) < maxRecord*9/10 {
		t.Fatalf("a record of %d bytes, %v", len(made.next.text()), err)
	}
	last := made.verdicts[len(asks)-1]
	if !errors.Is(last.err, errFull) || !errors.Is(last.err, admit.ErrNotReady) || last.held != nil {
		t.Errorf("the last: %+v", last)
	}
	if found, err := parseRecord(made.next.text()); err != nil || len(found.Pods) != strings.Count(made.next.text(), `"pod"`) {
		t.Errorf("the record: %v", err)
	}
}

// The records of a quota that got a parent count below it, and still say which replicas must not decide.
func TestPlanStrays(t *testing.T) {
	b := lay(t, makeQuota("top", "", "cpu=4"), makeQuota("q", "top", "cpu=4"), makeQuota("o", "top", ""))
	q, _ := b.tree.Get("q")
	b.objects.update(Object{Quota: q, Version: "5", Record: recordOf(t, "3", b.room(makePod("q/p", "u", "cpu=3"), false))})
	b.Pods().Replace(nil, "2")
	start := time.Now()
	if got := b.reserve(b.Ledger, ask(makePod("o/p", "v", "cpu=1"))); !strings.Contains(got, errBehind.Error()) {
		t.Errorf("behind the stray record: %s", got)
	}
	if waited := time.Since(start); waited < maxBehind {
		t.Errorf("waited %s", waited)
	}
	b.Pods().Reached("3")
	expect(t, "with the stray record", b.reserve(b.Ledger, ask(makePod("o/p", "v", "cpu=2"))), "full top cpu: 2+0+3 of 4")
	b.Pods().Put(seenPod(makePod("q/p", "u", "cpu=3"), 4))
	expect(t, "seen", b.reserve(b.Ledger, ask(makePod("o/p", "v", "cpu=1"))), "granted")
	expect(t, "on the top", b.record("top"), "seen 4: v o/p@o 1/0")
}

// The placement of a candidate: the previous charge counts only where a quota may limit it, and there is nothing to
// decide if the charge does not grow or nothing limits it.
func TestPlace(t *testing.T) {
	b := lay(t, makeQuota("top", "", "memory=9"), makeQuota("q", "top", "cpu=4"), makeQuota("o", "top", ""))
	none, q, lost := makePod("elsewhere/p", "u", "cpu=2"), makePod("q/p", "u", "cpu=2"), makePod("q/p", "u", "cpu=2")
	lost.Label, lost.Labelled = "lost", true
	small, ended := makePod("q/p", "u", "cpu=1"), makePod("q/p", "u", "cpu=9")
	ended.Ended = true
	for _, c := range []struct {
		name        string
		stored, pod *quota.Pod
		want        string // top, previous charge, whether the quota is unknown
	}{
		{"new", nil, q, `"top" new, known`},
		{"new in none", nil, none, `"" new, known`},
		{"new in unknown", nil, lost, `"" new, unknown`},
		{"grows", small, q, `"top" 1/0, known`},
		{"shrinks", q, small, `"" 2/0, known`},
		{"grows in unknown", func() *quota.Pod { p := *lost; p.Requests = amounts("cpu=1"); return &p }(), lost, `"" 1/0, unknown`},
		{"stays in unknown", lost, lost, `"" 2/0, known`},
		{"from none", none, q, `"top" 0/0, known`},
		{"from unknown", lost, q, `"top" 2/0, known`},
		{"to none", q, none, `"" 2/0, known`},
		{"runs again", ended, q, `"top" 0/0, known`},
		{"what nothing limits", nil, makePod("o/p", "u", "cpu=1"), `"" new, known`},
		{"what only the top limits", nil, makePod("o/p", "u", "memory=1"), `"top" new, known`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := b.place(b.tree, b.read(askChange(c.stored, c.pod)))
			before, known := "new", "known"
			if p.before != nil {
				before = inShort(p.beforeCharge)
			}
			if p.verdict.Unknown {
				known = "unknown"
			}
			expect(t, "placed", fmt.Sprintf("%q %s, %s", p.top, before, known), c.want)
		})
	}
}
