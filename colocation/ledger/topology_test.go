package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// watcher is a replica that knows only the quotas that a test shows it.
type watcher struct {
	*Ledger
	b      *bench
	quotas map[types.NamespacedName]*quota.Quota
	known  atomic.Pointer[quota.Tree]
	line   *line
}

// line is the way to a store, which may be cut.
type line struct {
	*fakeStore
	cut atomic.Bool
}

func (l *line) Read(ctx context.Context, key types.NamespacedName) (Object, error) {
	if l.cut.Load() {
		return Object{}, errNetwork
	}
	return l.fakeStore.Read(ctx, key)
}

func (l *line) Write(ctx context.Context, key types.NamespacedName, version, record string) (Object, error) {
	if l.cut.Load() {
		return Object{}, errNetwork
	}
	return l.fakeStore.Write(ctx, key, version, record)
}

// watcher returns a replica that has observed all quotas so far.
func (b *bench) watcher(name string) *watcher {
	w := &watcher{b: b, quotas: map[types.NamespacedName]*quota.Quota{}, line: &line{fakeStore: b.store}}
	tree := func(context.Context, string) (*quota.Tree, error) { return w.known.Load(), nil }
	w.Ledger = New(Options{Replica: name, Tree: tree, Store: w.line, Now: b.now})
	w.Pods().Replace(nil, "")
	for _, name := range slices.Sorted(maps.Keys(b.store.names())) {
		w.show(name)
	}
	return w
}

// now is the bench's clock, plus the time that has passed in the test's bubble.
func (b *bench) now() time.Time { return b.clock.Add(time.Since(b.began)) }

// names returns the names of the quotas in the store.
func (s *fakeStore) names() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[string]bool{}
	for key := range s.objects {
		names[key.Name] = true
	}
	return names
}

// set stores a quota and keeps its record.
func (s *fakeStore) set(q *quota.Quota) (version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version = s.next("")
	s.objects[keyOf(q)] = Object{Quota: q, Version: version, Record: s.objects[keyOf(q)].Record}
	return version
}

// get returns a quota as stored.
func (s *fakeStore) get(name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[types.NamespacedName{Namespace: quotaNamespace, Name: name}]
}

// show delivers the current state of quotas.
func (w *watcher) show(names ...string) {
	for _, name := range names {
		o := w.b.store.get(name)
		w.quotas[keyOf(o.Quota)] = o.Quota
		w.grow()
		w.Quotas().Put(Seen{Key: keyOf(o.Quota).String(), Version: o.Version, Object: o.Quota, Record: o.Record})
	}
}

// grow makes the tree of the quotas that the replica has observed.
func (w *watcher) grow() { w.known.Store(quota.NewTree(slices.Collect(maps.Values(w.quotas)))) }

// announce announces the change of a quota from what is stored. It is not stored.
func (w *watcher) announce(t *testing.T, q *quota.Quota) {
	t.Helper()
	old := w.b.store.get(q.Name)
	if err := w.Announce(t.Context(), QuotaChange{Old: old.Quota, New: q, From: old.Version}); err != nil {
		t.Error(err)
	}
}

// asks asks for a pod in the background.
func (w *watcher) asks(p *quota.Pod) <-chan string {
	answer := make(chan string, 1)
	go func() { answer <- w.b.reserve(w.Ledger, ask(p)) }()
	return answer
}

// soon returns the answer if it comes without waiting.
func soon(answer <-chan string) string {
	synctest.Wait()
	select {
	case text := <-answer:
		return text
	default:
		return "waits"
	}
}

// A replica that has not observed a change of the tree must not decide where one has decided that has.
func TestOldTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("q", "top", "cpu=4"))
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		b.store.set(makeQuota("q", "top", "cpu=1"))
		r1.show("q")
		expect(t, "by the new limit", b.reserve(r1.Ledger, ask(makePod("q/a", "a", "cpu=1"))), "granted")
		expect(t, "behind for long", <-r2.asks(makePod("q/b", "b", "cpu=1")), errOldTree.Error())
		answer := r2.asks(makePod("q/b", "b", "cpu=1"))
		expect(t, "behind", soon(answer), "waits")
		r2.show("q")
		expect(t, "not behind", soon(answer), "full q cpu: 1+0+1 of 1")
		expect(t, "waits", r2.Stats().WaitsForTree, 2)
	})
}

// Decisions alone make no replica wait for the tree.
func TestSameTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=900"), makeQuota("q", "top", "cpu=400"))
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		b.store.set(makeQuota("q", "top", "cpu=500"))
		r1.show("q")
		r2.show("q")
		for i := range 50 {
			for _, r := range []*watcher{r1, r2} {
				expect(t, "a pod", <-r.asks(makePod("q/"+r.options.Replica+string(rune('a'+i)), "u", "cpu=1")), "granted")
				r.show("top")
			}
		}
		expect(t, "waits", r1.Stats().WaitsForTree+r2.Stats().WaitsForTree, 0)
		if found, err := parseRecord(b.store.get("top").Record); err != nil || found.Tree != b.store.get("q").Version {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// A record whose tree is newer than the object is from another cluster.
func TestForgedTree(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=4"))
	made, err := b.plan(t, `{"seen":"9999999","tree":"9999999","changes":[{"quota":"quotas/q","from":"9999999","in":["q"],"at":1000000000000,"by":"r9"}],"pods":[]}`,
		ask(makePod("q/p", "u", "cpu=1")))
	if err != nil || made.verdicts[0].held == nil || len(made.next.Changes) > 0 || made.next.Tree != "" {
		t.Errorf("%+v, %v", made, err)
	}
}

// An announced change stops the pods that it concerns, and no others, until it is observed.
func TestAnnounced(t *testing.T) {
	before := []*quota.Quota{makeQuota("top", "", "cpu=9"), makeQuota("q", "top", "cpu=4"), makeQuota("o", "top", "cpu=4"),
		makeQuota("mid", "top", "cpu=5"), makeQuota("m", "mid", "cpu=5"), makeQuota("other", "", "cpu=9"), makeQuota("s", "other", "cpu=9")}
	claims := func(q *quota.Quota, namespaces ...string) *quota.Quota {
		q.Namespaces = namespaces
		return q
	}
	for _, c := range []struct {
		name      string
		change    *quota.Quota
		waits     string // the namespaces whose pods wait
		passes    string // those whose pods do not
		when      string // the answer to the first of the waiting when the change is observed
		otherwise string // and when it is never stored
	}{
		{"a lower limit", makeQuota("q", "top", "cpu=1"), "q", "o m s", "full q cpu: 2+0+0 of 1", "granted"},
		{"a new limit", makeQuota("q", "top", "cpu=4 memory=1"), "q", "o m s", "granted", "granted"},
		{"a higher limit", makeQuota("q", "top", "cpu=5"), "", "q o m s", "", ""},
		{"another parent", makeQuota("q", "mid", "cpu=4"), "q m", "o s", "granted", "granted"},
		{"another tree", makeQuota("q", "other", "cpu=4"), "q s", "o m", "granted", "granted"},
		{"a namespace less", claims(makeQuota("q", "top", "cpu=4")), "q", "o m s", "granted", "granted"},
		{"a namespace more", claims(makeQuota("o", "top", "cpu=1"), "o", "q"), "o", "m s", "full o cpu: 2+0+0 of 1", "granted"},
	} {
		for _, stored := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := lay(t, before...)
					r1, r2 := b.watcher("r1"), b.watcher("r2")
					r1.announce(t, c.change)
					r2.show("top", "other")
					var first <-chan string
					for _, namespace := range strings.Fields(c.waits) {
						answer := r2.asks(makePod(namespace+"/p", namespace, "cpu=2"))
						expect(t, namespace, soon(answer), "waits")
						if first == nil {
							first = answer
						}
					}
					for _, namespace := range strings.Fields(c.passes) {
						expect(t, namespace, soon(r2.asks(makePod(namespace+"/p", namespace, "cpu=2"))), "granted")
					}
					if first == nil {
						expect(t, "announced", b.store.get("top").Record == "" || !strings.Contains(b.store.get("top").Record, "changes"), true)
						return
					}
					if stored {
						b.store.set(c.change)
						r2.show(c.change.Name)
						expect(t, "when it is observed", soon(first), c.when)
						return
					}
					time.Sleep(maxChange + time.Second)
					expect(t, "when it is not stored", soon(first), c.otherwise)
				})
			})
		}
	}
}

// What a change concerns, and on which objects it is announced.
func TestConcerns(t *testing.T) {
	claims := func(q *quota.Quota, namespaces ...string) *quota.Quota {
		q.Namespaces = namespaces
		return q
	}
	own := func(q *quota.Quota) *quota.Quota {
		q.Namespace = q.Name
		return q
	}
	admission := func(q *quota.Quota, limits string) *quota.Quota {
		q.Admission = amounts(limits)
		return q
	}
	stored := []*quota.Quota{makeQuota("top", "", "cpu=9"), makeQuota("mid", "top", "cpu=9"), makeQuota("q", "mid", "cpu=4"), makeQuota("o", "top", "cpu=4"),
		makeQuota("other", "", "cpu=9"), makeQuota("s", "other", "cpu=9"), makeQuota("orphan", "lost", "cpu=9"), makeQuota(api.SystemQuota, "", ""), makeQuota("below", api.SystemQuota, "cpu=4")}
	tree := quota.NewTree(stored)
	q, below := stored[2], stored[8]
	for _, c := range []struct {
		name     string
		old, new *quota.Quota
		want     string
	}{
		{"nothing", q, q, ": "},
		{"lower", q, makeQuota("q", "mid", "cpu=3"), "top: q"},
		{"higher", q, makeQuota("q", "mid", "cpu=5"), ": "},
		{"a new limit", q, makeQuota("q", "mid", "cpu=4 memory=1"), "top: q"},
		{"no limit", q, makeQuota("q", "mid", ""), ": "},
		{"lower by annotation", q, admission(makeQuota("q", "mid", "cpu=4"), "cpu=3"), "top: q"},
		{"the annotation removed", admission(makeQuota("q", "mid", "cpu=4"), "cpu=6"), q, "top: q"},
		{"an annotation that lifts", q, admission(makeQuota("q", "mid", "cpu=4"), "cpu=6"), ": "},
		{"another parent", q, makeQuota("q", "top", "cpu=4"), "top: q"},
		{"another tree", q, makeQuota("q", "other", "cpu=4"), "other top: other q"},
		{"an inner one", stored[1], makeQuota("mid", "other", "cpu=9"), "other top: mid other"},
		{"becomes a top", q, makeQuota("q", "", "cpu=4"), "top: q"},
		{"a top gets a parent", stored[4], makeQuota("other", "top", "cpu=9"), "top: other top"},
		{"the limit of a top", stored[0], makeQuota("top", "", "cpu=3"), ": top"},
		{"new", nil, claims(makeQuota("n", "top", "cpu=4")), ": "},
		{"new, with a namespace of another", nil, own(claims(makeQuota("n", "top", "cpu=4"), "n")), "top: n top"},
		{"new, named like a namespace that another lists", nil, own(claims(makeQuota("m", "other", "cpu=4"))), "other: m other"},
		{"new, and the parent of some already", nil, claims(makeQuota("lost", "top", "cpu=4")), "orphan top: lost orphan top"},
		{"deleted", q, nil, "top: q"},
		{"below a reserved one", below, makeQuota("below", api.SystemQuota, "cpu=3"), api.SystemQuota + ": below"},
		{"a namespace to none", q, claims(makeQuota("q", "mid", "cpu=4")), "top: q"},
	} {
		before := tree
		if c.old != nil {
			before = tree.With(map[types.NamespacedName]*quota.Quota{c.old.Identity(): c.old})
		}
		for _, shown := range []*quota.Tree{before, before.With(map[types.NamespacedName]*quota.Quota{QuotaChange{Old: c.old, New: c.new}.identity(): c.new})} {
			tops, names := concerns(shown, QuotaChange{Old: c.old, New: c.new}, false, false)
			at := []string{}
			for _, top := range tops {
				at = append(at, top.Name)
			}
			slices.Sort(names)
			expect(t, c.name, strings.Join(at, " ")+": "+strings.Join(names, " "), c.want)
		}
	}
}

// An announcement that cannot be written refuses the change; an announcement that is overtaken is written again.
func TestAnnounceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("q", "top", "cpu=4"))
		r := b.watcher("r1")
		c := QuotaChange{Old: b.store.get("q").Quota, New: makeQuota("q", "top", "cpu=1"), From: b.store.get("q").Version}
		for range 3 {
			b.store.set(b.store.get("top").Quota) // r does not know
			if err := r.Announce(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
		found, err := parseRecord(b.store.get("top").Record)
		if err != nil || len(found.Changes) != 1 || found.Tree != c.From {
			t.Errorf("%+v, %v", found, err)
		}
		b.store.before = func() error { return ErrConflict }
		if err := r.Announce(t.Context(), c); !errors.Is(err, admit.ErrNotReady) {
			t.Errorf("always overtaken: %v", err)
		}
		b.store.before = func() error { return errNetwork }
		if err := r.Announce(t.Context(), c); !errors.Is(err, admit.ErrNotReady) || !errors.Is(err, errNetwork) {
			t.Errorf("no network: %v", err)
		}
		b.store.before = func() error { return ErrGone }
		if err := r.Announce(t.Context(), c); !errors.Is(err, admit.ErrNotReady) {
			t.Errorf("the top is gone, and r does not know: %v", err)
		}
	})
}

// A change that was announced and is not stored leaves the record when a pod has waited for it, or when the record is
// tidied up. A stored change stays until it is observed.
func TestAnnouncedForNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		how  func(b *bench, r *watcher)
		want int
	}{
		{"at first", func(*bench, *watcher) {}, 1},
		{"a pod of another quota", func(b *bench, r *watcher) {
			time.Sleep(2 * maxChange)
			expect(t, "a pod", <-r.asks(makePod("o/p", "u", "cpu=1")), "granted")
		}, 1},
		{"a pod", func(b *bench, r *watcher) { expect(t, "a pod", <-r.asks(makePod("q/p", "u", "cpu=1")), "granted") }, 0},
		{"tidied up at once", func(b *bench, r *watcher) { r.sweep(t.Context()) }, 1},
		{"tidied up", func(b *bench, r *watcher) { r.sweep(t.Context()); time.Sleep(maxChange); r.sweep(t.Context()) }, 0},
		{"stored, and tidied up", func(b *bench, r *watcher) {
			b.store.set(makeQuota("q", "top", "cpu=1"))
			r.sweep(t.Context())
			time.Sleep(maxChange)
			r.sweep(t.Context())
		}, 1},
		{"stored, and a pod", func(b *bench, r *watcher) {
			b.store.set(makeQuota("q", "top", "cpu=1"))
			answer := r.asks(makePod("q/p", "u", "cpu=2"))
			time.Sleep(2 * maxChange)
			expect(t, "a pod", soon(answer), "waits")
			r.show("q")
			expect(t, "a pod", soon(answer), "full q cpu: 2+0+0 of 1")
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("q", "top", "cpu=4"), makeQuota("o", "top", "cpu=4"))
				r := b.watcher("r1")
				r.announce(t, makeQuota("q", "top", "cpu=1"))
				c.how(b, r)
				found, err := parseRecord(b.store.get("top").Record)
				if err != nil || len(found.Changes) != c.want {
					t.Errorf("%+v, %v", found, err)
				}
			})
		})
	}
}

// A dry run waits for an announced change like any other, and ends with its caller.
func TestAnnouncedDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=9"), makeQuota("q", "top", "cpu=4"))
		r := b.watcher("r1")
		r.announce(t, makeQuota("q", "top", "cpu=1"))
		ctx, cancel := context.WithTimeout(t.Context(), maxChange/2)
		defer cancel()
		if _, err := r.Judge(ctx, ask(makePod("q/p", "u", "cpu=1"))); !errors.Is(err, errChanging) {
			t.Errorf("%v", err)
		}
		expect(t, "later", b.judged(r.Judge(t.Context(), ask(makePod("q/p", "u", "cpu=1")))), "granted")
	})
}

// Many changes at once, as from a controller, do not overtake each other's announcements.
func TestAnnounceMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quotas := []*quota.Quota{makeQuota("top", "", "cpu=99")}
		for i := range 40 {
			quotas = append(quotas, makeQuota(fmt.Sprintf("q%d", i), "top", "cpu=4"))
		}
		b := lay(t, quotas...)
		b.store.before = func() error { time.Sleep(5 * time.Millisecond); return nil }
		r := b.watcher("r1")
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() { r.announce(t, makeQuota(fmt.Sprintf("q%d", i), "top", "cpu=1")) })
		}
		all.Wait()
		found, err := parseRecord(b.store.get("top").Record)
		if conflicts := r.Stats().Conflicts; err != nil || len(found.Changes) != 40 || conflicts != 0 {
			t.Errorf("%d changes are announced, after %d conflicts: %v", len(found.Changes), conflicts, err)
		}
	})
}

// What nothing limited is admitted without a reservation, so a late replica does not learn that a change was announced: the first
// quota of a namespace, and the first limit on a path, count from when it has observed them.
func TestLimitedForTheFirstTime(t *testing.T) {
	for what, c := range map[string]struct {
		before, after *quota.Quota
		pod           *quota.Pod
	}{
		"a limit":     {makeQuota("q", "top", ""), makeQuota("q", "top", "cpu=1"), makePod("q/p", "p", "cpu=5")},
		"a namespace": {makeQuota("q", "top", "cpu=1"), func() *quota.Quota { q := makeQuota("q", "top", "cpu=1"); q.Namespaces = []string{"new"}; return q }(), makePod("new/p", "p", "cpu=5")},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, makeQuota("top", "", ""), c.before)
			r1, r2 := b.watcher("r1"), b.watcher("r2")
			r1.announce(t, c.after)
			b.store.set(c.after)
			expect(t, what+": announced", strings.Contains(b.store.get("top").Record, "changes"), true)
			expect(t, what+": late", b.reserve(r2.Ledger, ask(c.pod)), "granted")
			r2.show("top", "q")
			expect(t, what+": observed", b.reserve(r2.Ledger, ask(c.pod)), "full q cpu: 5+0+0 of 1")
		})
	}
}
