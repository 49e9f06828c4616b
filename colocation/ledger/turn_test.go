package ledger

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// watching delivers each write of the top to the watchers, two milliseconds late, until the test ends.
func (b *bench) watching(t *testing.T, top string, all ...*watcher) {
	done := make(chan bool)
	t.Cleanup(func() { close(done) })
	go func() {
		for last := ""; ; {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if now := b.store.get(top).Version; now != last {
				last = now
				for _, w := range all {
					w.show(top)
				}
			}
		}
	}()
}

// flood asks the watchers to resize pods, which no grant does, one after the other within a time, and waits until all are granted.
func flood(t *testing.T, pods int, within time.Duration, all ...*watcher) {
	t.Helper()
	var each sync.WaitGroup
	for i := range pods {
		time.Sleep(within / time.Duration(pods))
		w := all[rand.IntN(len(all))]
		each.Go(func() {
			name := fmt.Sprintf("p%d", i)
			expect(t, name, w.b.reserve(w.Ledger, askChange(makePod("q/"+name, name, ""), makePod("q/"+name, name, "cpu=1"))), "granted")
		})
	}
	each.Wait()
}

// A conflict is resolved by what the watch brings. Only if it brings nothing, the object is read.
func TestConflictWithoutRead(t *testing.T) {
	for _, shown := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, makeQuota("q", "", "cpu=9"))
			r1, r2 := b.watcher("r1"), b.watcher("r2")
			expect(t, "one", <-r1.asks(makePod("q/a", "a", "cpu=1")), "granted")
			answer := r2.asks(makePod("q/b", "b", "cpu=1"))
			expect(t, "the other", soon(answer), "waits")
			if shown {
				r2.show("q")
				expect(t, "the other", soon(answer), "granted")
			}
			if !shown {
				expect(t, "the other", <-answer, "granted")
			}
			s := r2.Stats()
			expect(t, "reads, conflicts", fmt.Sprint(s.Reads == 0, s.Conflicts), fmt.Sprint(shown, 1))
		})
	}
}

// When a replica writes, if a write takes 10 ms.
func TestTurn(t *testing.T) {
	const write = 8 * time.Millisecond // the pause is 2, a slot 16
	for _, c := range []struct{ since, place, replicas, want int }{
		{0, 0, 1, 2}, {1, 0, 1, 1}, {2, 0, 1, 0}, {90, 0, 1, 0},
		{0, 0, 3, 2}, {2, 0, 3, 0}, {10, 0, 3, 0}, {11, 0, 3, 39}, {50, 0, 3, 0},
		{0, 1, 3, 18}, {18, 1, 3, 0}, {26, 1, 3, 0}, {27, 1, 3, 39},
		{0, 2, 3, 34}, {90, 2, 3, 0}, {91, 2, 3, 39}, {99, 2, 3, 0},
	} {
		got := turn(time.Duration(c.since)*time.Millisecond, write, c.place, c.replicas)
		expect(t, fmt.Sprintf("%+v", c), got, time.Duration(c.want)*time.Millisecond)
	}
}

// A replica that is alone does not wait.
func TestTurnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=900"))
		r := b.watcher("r1")
		for i := range 50 {
			expect(t, "a pod", soon(r.asks(makePod(fmt.Sprintf("q/p%d", i), "u", "cpu=1"))), "granted")
			r.show("q")
		}
		expect(t, "waits", r.Stats().WaitsForTurn, 0)
	})
}

// Three replicas that admit pods into one tree hardly ever overtake each other.
func TestTurnRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=900"))
		b.store.before = func() error { time.Sleep(8 * time.Millisecond); return nil }
		r1, r2, r3 := b.watcher("r1"), b.watcher("r2"), b.watcher("r3")
		b.watching(t, "q", r1, r2, r3)
		flood(t, 600, 2*time.Second, r1, r2, r3)
		var conflicts, writes int64
		for _, r := range []*watcher{r1, r2, r3} {
			conflicts, writes = conflicts+r.Stats().Conflicts, writes+r.Stats().Writes
		}
		t.Logf("%d conflicts, %d writes", conflicts, writes)
		if conflicts > writes/5 || writes > 300 {
			t.Errorf("%d conflicts, %d writes", conflicts, writes)
		}
	})
}

// A replica whose turn it is may have been killed: the others write all the same.
func TestTurnDeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=900"))
		b.store.before = func() error { time.Sleep(8 * time.Millisecond); return nil }
		r1, r2, dead := b.watcher("r1"), b.watcher("r2"), b.watcher("r3")
		b.watching(t, "q", r1, r2, dead)
		flood(t, 60, 200*time.Millisecond, r1, r2, dead)
		began := time.Now()
		flood(t, 60, 200*time.Millisecond, r1, r2)
		if took := time.Since(began); took > 200*time.Millisecond+maxTurn+20*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}
