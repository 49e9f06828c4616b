package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// Many callers at once share writes, and all are answered.
func TestQueueBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=250"))
		b.store.before = func() error { time.Sleep(10 * time.Millisecond); return nil }
		var all sync.WaitGroup
		var mu sync.Mutex
		count := map[string]int{}
		for i := range 300 {
			all.Go(func() {
				got := b.reserve(b.Ledger, ask(makePod(fmt.Sprintf("q/p%d", i), fmt.Sprintf("u%d", i), "cpu=1")))
				mu.Lock()
				defer mu.Unlock()
				count[got]++
			})
		}
		all.Wait()
		if count["granted"] != 250 || count["full q cpu: 1+0+250 of 250"] != 50 {
			t.Errorf("%v", count)
		}
		if b.store.writes > 4 {
			t.Errorf("%d writes", b.store.writes)
		}
		synctest.Wait() // the queue goes after the answers
		b.queues.mu.Lock()
		defer b.queues.mu.Unlock()
		expect(t, "queues", len(b.queues.of), 0)
	})
}

// A caller that left before the decision is not counted; the reservation of a caller that leaves during the write is
// revoked by the next write.
func TestQueueGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=1"))
		release := make(chan bool)
		b.store.before = func() error { <-release; return nil }
		leaves, leave := context.WithCancel(t.Context())
		answer := make(chan error, 3)
		asks := func(ctx context.Context, name string) {
			go func() {
				_, err := b.Reserve(ctx, ask(makePod("q/"+name, name, "cpu=1")))
				answer <- err
			}()
			synctest.Wait()
		}
		asks(leaves, "during")
		asks(leaves, "before")
		leave()
		for range 2 {
			if err := <-answer; !errors.Is(err, admit.ErrNotReady) || !errors.Is(err, context.Canceled) {
				t.Errorf("who has gone hears %v", err)
			}
		}
		release <- true
		synctest.Wait()
		expect(t, "record", b.record("q"), "seen : during q/during@q 1/0")
		asks(t.Context(), "after")
		release <- true
		if err := <-answer; err != nil {
			t.Error(err)
		}
		expect(t, "record", b.record("q"), "seen : after q/after@q 1/0")
	})
}

// A refusal that does not depend on the other pods of the batch is sent before the record is written. Other refusals
// wait for the write, because otherwise a pod would be refused for room that was given to none.
func TestQueueFirm(t *testing.T) {
	type answers map[string]string
	const lost = "the network is broken"
	for _, c := range []struct {
		name         string
		pods         string // with their requests, in the order of their arrival; 2 of 4 are taken
		before       answers
		works, fails answers
	}{
		{"too big in any case", "a=1 big=9", answers{"big": "full q cpu: 9+1+2 of 4"}, answers{"a": "granted"}, answers{"a": lost}},
		{"too big after another", "a=2 b=1", nil, answers{"a": "granted", "b": "full q cpu: 1+1+3 of 4"}, answers{"a": lost, "b": lost}},
		{"too big before another", "b=3 a=2", answers{"b": "full q cpu: 3+1+1 of 4"}, answers{"a": "granted"}, answers{"a": lost}},
		{"too big twice", "a=2 b=1 big=3", answers{"big": "full q cpu: 3+1+3 of 4"}, answers{"a": "granted", "b": "full q cpu: 1+1+3 of 4"}, answers{"a": lost, "b": lost}},
	} {
		for err, want := range map[error]answers{nil: c.works, errNetwork: c.fails} {
			t.Run(fmt.Sprintf("%s, %v", c.name, err), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := lay(t, makeQuota("q", "", "cpu=4"))
					b.Pods().Put(seenPod(makePod("q/seen", "seen", "cpu=1"), 3))
					release, got := make(chan error), answers{}
					b.store.before = func() error { return <-release }
					var mu sync.Mutex
					asks := func(name, request string) {
						go func() {
							v := b.reserve(b.Ledger, ask(makePod("q/"+name, name, "cpu="+request)))
							mu.Lock()
							defer mu.Unlock()
							if strings.Contains(v, lost) {
								v = lost
							}
							got[name] = v
						}()
						synctest.Wait()
					}
					asks("first", "1") // its write keeps the others together
					for _, pair := range strings.Fields(c.pods) {
						name, request, _ := strings.Cut(pair, "=")
						asks(name, request)
					}
					release <- nil
					synctest.Wait()
					all := answers{"first": "granted"}
					maps.Copy(all, c.before)
					expect(t, "before the write", got, all)
					release <- err
					synctest.Wait()
					maps.Copy(all, want)
					expect(t, "after the write", got, all)
				})
			})
		}
	}
}

// A write whose answer is lost may have happened: its callers are asked to retry, and nothing is reserved for them for
// good.
func TestQueueLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=1"))
		b.store.after = func() error { return errNetwork }
		_, err := b.Reserve(t.Context(), ask(makePod("q/p", "u", "cpu=1")))
		if !errors.Is(err, admit.ErrNotReady) || !errors.Is(err, errNetwork) {
			t.Errorf("%v", err)
		}
		expect(t, "record", b.record("q"), "seen : u q/p@q 1/0")
		b.store.after = nil
		expect(t, "another", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "granted")
		expect(t, "record", b.record("q"), "seen : v q/o@q 1/0")
	})
}

// Revoking an answer does not revoke an earlier one for the same pod that was received.
func TestQueueAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=1"))
		again := ask(makePod("q/p", "u", "cpu=1"))
		expect(t, "asked", b.reserve(b.Ledger, again), "granted")
		b.store.after = func() error { return errNetwork }
		if got := b.reserve(b.Ledger, again); !strings.Contains(got, errNetwork.Error()) {
			t.Errorf("asked again: %s", got)
		}
		b.store.after = nil
		expect(t, "another", b.reserve(b.Ledger, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+0+1 of 1")
	})
}

// Two replicas in conflict: one write is overtaken, and its replica decides again.
func TestQueueConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("q", "", "cpu=1"))
		other := b.replica("r2")
		expect(t, "one", b.reserve(b.Ledger, ask(makePod("q/p", "u", "cpu=1"))), "granted")
		expect(t, "the other", b.reserve(other, ask(makePod("q/o", "v", "cpu=1"))), "full q cpu: 1+0+1 of 1")
		expect(t, "conflicts", other.counts.conflicts.Load(), 1)
	})
}

// A pod that one quota refuses stays refused when the write for another quota of the tree meets a conflict, whichever is asked
// first (kubernetes#141904: there, the decision after the conflict looks only at the quotas that are left).
func TestRefusedStaysRefused(t *testing.T) {
	for _, refusedFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("a", "top", "cpu=1"), makeQuota("c", "top", "cpu=8"))
			other := b.replica("r2")
			expect(t, "in the first replica", b.reserve(b.Ledger, ask(makePod("c/p", "u", "cpu=1"))), "granted")
			b.store.before = func() error { time.Sleep(10 * time.Millisecond); return nil }
			full, granted := make(chan string, 1), make(chan string, 1)
			pods := []func(){
				func() { full <- b.reserve(other, ask(makePod("a/o", "v", "cpu=2"))) },
				func() { granted <- b.reserve(other, ask(makePod("c/o", "w", "cpu=1"))) },
			}
			if !refusedFirst {
				slices.Reverse(pods)
			}
			for _, pod := range pods {
				go pod()
				time.Sleep(time.Millisecond)
			}
			expect(t, "the other, which fits", <-granted, "granted")
			expect(t, "the one that does not", <-full, "full a cpu: 2+0+0 of 1")
			expect(t, "conflicts", other.counts.conflicts.Load(), 1)
			expect(t, "for one that does not", b.record("top"), "seen : u c/p@c 1/0 w c/o@c 1/0")
		})
	}
}

// When a quota gets a parent while a caller waits, the caller moves to the queue of the new top. An object that shows
// the parent before the tree does stops all decisions.
func TestQueueMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, before, after := makeQuota("top", "", "cpu=1"), makeQuota("q", "", "cpu=5"), makeQuota("q", "top", "cpu=5")
		b := lay(t, top, before)
		b.objects.update(Object{Quota: after, Version: "2"})
		if got := b.reserve(b.Ledger, ask(makePod("q/p", "u", "cpu=1"))); !strings.Contains(got, errOldTree.Error()) {
			t.Errorf("the object is ahead of the tree: %s", got)
		}
		done := make(chan string)
		go func() { done <- b.reserve(b.Ledger, ask(makePod("q/p", "u", "cpu=1"))) }()
		time.Sleep(maxBehind / 2)
		b.grow(top, after)
		b.Quotas().Reached("2")
		expect(t, "when the tree has followed", <-done, "granted")
		expect(t, "on the new top", b.record("top"), "seen : u q/p@q 1/0")
		expect(t, "on the old top", b.record("q"), "seen :")
	})
}

// A pod is bound in the tree that decides: changes of its quota while it waited count, whether it is then in this tree,
// in another or in none.
func TestQueueBoundAnew(t *testing.T) {
	limited := func(name, parent, namespace, limits string) *quota.Quota {
		q := makeQuota(name, parent, limits)
		q.Namespaces = []string{namespace}
		return q
	}
	before := []*quota.Quota{makeQuota("top", "", "cpu=9"), limited("q", "top", "team", "cpu=9"), limited("small", "top", "none", "cpu=1"), limited("other", "", "none", "cpu=2")}
	named := makePod("team/p", "u", "cpu=3")
	named.Label, named.Labelled = "q", true
	for _, c := range []struct {
		name  string
		pod   *quota.Pod
		after []*quota.Quota
		want  string
		other string // the record of the other tree
	}{
		{"to a smaller one", makePod("team/p", "u", "cpu=3"), []*quota.Quota{before[0], limited("q", "top", "none", "cpu=9"), limited("small", "top", "team", "cpu=1"), before[3]},
			"full small cpu: 3+0+0 of 1", "seen :"},
		{"to another tree", makePod("team/p", "u", "cpu=2"), []*quota.Quota{before[0], before[2], limited("other", "", "team", "cpu=2")}, "granted", "seen : u team/p@other 2/0"},
		{"to a smaller one in another tree", makePod("team/p", "u", "cpu=3"), []*quota.Quota{before[0], before[2], limited("other", "", "team", "cpu=2")}, "full other cpu: 3+0+0 of 2", "seen :"},
		{"to none", makePod("team/p", "u", "cpu=3"), []*quota.Quota{before[0], before[2], before[3]}, "granted", "seen :"},
		{"its label to none", named, []*quota.Quota{before[0], before[2], before[3]}, "unknown quota q", "seen :"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := lay(t, before...)
				release, first, done := make(chan bool), make(chan string), make(chan string, 2)
				b.store.before = func() error { <-release; return nil }
				busy := makePod("team/first", "f", "cpu=1") // keeps the tree busy, and does not move
				busy.Label, busy.Labelled = "q", true
				go func() { first <- b.reserve(b.Ledger, ask(busy)) }()
				synctest.Wait()
				go func() { done <- b.reserve(b.Ledger, ask(c.pod)) }()
				synctest.Wait()
				b.grow(c.after...)
				for _, q := range slices.DeleteFunc(slices.Clone(c.after), func(q *quota.Quota) bool { return slices.Contains(before, q) }) {
					b.objects.update(Object{Quota: q, Version: b.store.set(q)})
				}
				close(release)
				expect(t, "the first", <-first, "granted")
				expect(t, "the pod", <-done, c.want)
				expect(t, "judged", b.judged(b.Judge(t.Context(), ask(c.pod))), c.want)
				expect(t, "the other tree", b.record("other"), c.other)
			})
		})
	}
}

// A request that nothing limits is not written and leaves no queue behind.
func TestQueueUnlimited(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=1"))
	expect(t, "unlimited", b.reserve(b.Ledger, ask(makePod("q/p", "u", "disk=1"))), "granted")
	expect(t, "of no quota", b.reserve(b.Ledger, ask(makePod("elsewhere/p", "u", "cpu=9"))), "granted")
	expect(t, "writes", b.store.writes, 0)
}
