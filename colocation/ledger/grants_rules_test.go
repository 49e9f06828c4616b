package ledger

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// Each rule for spending a grant, broken by itself, keeps a pod from being admitted without a write.
func TestSpendRules(t *testing.T) {
	top, q := makeQuota("top", "", "cpu=200"), makeQuota("q", "top", "cpu=100")
	holds := func(r reservation) func(*watcher, *granted, *placement) {
		return func(w *watcher, _ *granted, _ *placement) {
			_ = r.encode()
			w.objects.update(Object{Quota: top, Version: "900", Record: record{Pods: []reservation{r}}.text()})
		}
	}
	for what, spoil := range map[string]func(*watcher, *granted, *placement){
		"nothing":   func(*watcher, *granted, *placement) {},
		"an update": func(_ *watcher, _ *granted, p *placement) { p.before = &quota.Binding{} },
		"the end":   func(w *watcher, _ *granted, _ *placement) { w.grants.ended = true },
		"its time":  func(_ *watcher, in *granted, _ *placement) { in.begun = in.begun.Add(-grantUse) },
		"many pods": func(_ *watcher, in *granted, _ *placement) { in.spent = make([]reservation, maxSpent) },
		"another path": func(_ *watcher, _ *granted, p *placement) {
			p.path = []*quota.Quota{makeQuota("q", "top", "cpu=9"), top}
		},
		"another resource":  func(_ *watcher, _ *granted, p *placement) { p.charge = amounts("cpu=1 memory=1Gi") },
		"no grant":          holds(reservation{Pod: "a/b", Quota: "q"}),
		"another's grant":   holds(reservation{Pod: "a/b", Quota: "q", Grant: true, By: "r2", At: 1e12}),
		"an earlier grant":  holds(reservation{Pod: "a/b", Quota: "q", Grant: true, By: "r1", At: 1}),
		"of another quota":  holds(reservation{Pod: "a/b", Quota: "top", Grant: true, By: "r1", At: 1e12}),
		"the caller's time": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := lay(t, top, q)
			w := b.watcher("r1")
			w.admit(t, 1, 5)
			w.Ledger.grants.in[keyOf(top)].at = 1e12
			holds(reservation{Pod: "a/b", Quota: "q", Grant: true, By: "r1", At: 1e12})(w, nil, nil)
			p := w.place(w.known.Load(), w.read(ask(onePod(6))))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if spoil == nil {
				cancel()
			} else {
				spoil(w, w.Ledger.grants.in[keyOf(top)], &p)
			}
			expect(t, what, w.Ledger.grants.spend(ctx, &p), what == "nothing")
			w.Ledger.grants.ended = true
			time.Sleep(grantUse / 4)
		})
	}
}

// When grants are due, and when the demand begins anew.
func TestGrantDue(t *testing.T) {
	now := time.Now()
	expect(t, "many pods", (&granted{begun: now, spent: make([]reservation, maxSpent/2)}).due(now), true)
	expect(t, "fewer pods", (&granted{begun: now, spent: make([]reservation, maxSpent/2-1)}).due(now), false)
	d := demand{since: now, pods: 3}
	d.rotate(now.Add(-2 * grantUse))
	expect(t, "the clock was set back", d.pods, 0)
}

// A write keeps what was spent since its plan, and what a failed one changes is restored.
func TestGrantWrite(t *testing.T) {
	of := func(n int) sum { return sum(amounts(fmt.Sprintf("cpu=%d", n))) }
	key, now := keyOf(makeQuota("q", "", "")), time.Now()
	lay := func() (*grants, *granted) {
		in := &granted{at: 3, new: 3, last: 5, first: 7, spent: []reservation{{Pod: "a"}, {Pod: "b"}, {Pod: "c"}}, check: grantCheck{version: "1"},
			of: map[string]*grant{"q": {total: of(5), limit: of(9), demand: demand{since: now, pods: 2}}, "idle": {total: of(1), limit: of(1)}}}
		return &grants{in: map[types.NamespacedName]*granted{key: in}}, in
	}
	made := func() *grantPlan {
		return &grantPlan{at: 6, next: 9, of: map[string]plannedGrant{"q": {total: of(5), room: of(2)}, "idle": {total: of(1)}}}
	}
	state := func(in *granted) string {
		return fmt.Sprintf("%d %d %d, %d and %d pods, %d quotas, %d pruned, %q, %s", in.at, in.new, in.last, in.first, len(in.spent), len(in.of), in.pruned,
			in.check.version, inShort(corev1.ResourceList(in.of["q"].limit)))
	}
	g, in := lay()
	p := made()
	expect(t, "begun", fmt.Sprint(g.begin(key, p), " ", state(in)), `true 3 6 6, 7 and 3 pods, 2 quotas, 0 pruned, "1", 7/0`)
	g.notWritten(key, p)
	expect(t, "not written", state(in), `3 3 6, 7 and 3 pods, 2 quotas, 0 pruned, "", 9/0`)
	p = made()
	g.begin(key, p)
	expect(t, "any", g.written(key, p, now), true)
	expect(t, "written", state(in), `6 6 6, 9 and 1 pods, 1 quotas, 1 pruned, "", 7/0`)
	expect(t, "current", fmt.Sprint(g.current(key, 6), g.current(key, 3)), "true false")
	expect(t, "quotas were removed since", g.begin(key, made()), false)
	g, in = lay()
	p = made()
	p.at = 4
	g.begin(key, p)
	expect(t, "the newest time", in.last, 5)
	p.of["idle"] = plannedGrant{total: of(1), room: of(1)}
	g.written(key, p, now)
	expect(t, "a grant without demand stays", len(in.of), 2)
}

// Plans of one replica have different times, and name pods that overtook a full record only when these would have appeared.
func TestGrantPlanRules(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	q, _ := b.tree.Get("q")
	v := view{tree: b.tree, top: Object{Quota: q}, now: b.clock}
	old, revoked := b.room(onePod(1), false), b.room(onePod(2), false)
	old.At, revoked.At = 1, 1
	b.Ledger.revoked.add("", revoked)
	later := b.clock.UnixMilli() + 5
	b.Ledger.grants.in[keyOf(q)] = &granted{last: later, spent: []reservation{old, revoked, b.room(onePod(3), false)}, of: map[string]*grant{}}
	b.accounts.with(b.tree, func(a *accounts) {
		_, made := b.pending.enterSpent(a, v, record{})
		expect(t, "the time", made.at, later+1)
		expect(t, "overdue", len(b.pending.overdue(v, nil)), 1)
		expect(t, "overdue with a plan", len(b.pending.overdue(v, made)), 0)
	})
	own := reservation{Grant: true, Pod: "a/b", By: "r1", At: 1}
	for by, want := range map[string]string{"r1": "false false", "r2": "false true"} {
		own.By = by
		b.pending.expired(&own, b.clock)
		end := b.clock.Add(grantEnd + DefaultExpiry)
		expect(t, "expired of "+by, fmt.Sprint(b.pending.expired(&own, end.Add(-1)), b.pending.expired(&own, end)), want)
	}
	update := plan{verdicts: []verdict{{held: &reservation{Update: true}}, {held: &reservation{}}, {}}}
	expect(t, "new pods", len(update.newPods()), 1)
}

// What is entered is pending, merged with an earlier attempt, and fits into the record.
func TestGrantEnters(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	b.Pods().Put(seenPod(onePod(1), 7))
	before := b.room(makePod("q/p2", "u0", "cpu=3"), false)
	next := record{Pods: []reservation{before}}
	b.accounts.with(b.tree, func(a *accounts) {
		expect(t, "fits", a.enter(&next, []reservation{b.room(onePod(1), false), b.room(onePod(2), false)}, b.Ledger.revoked), true)
		expect(t, "entered", inBrief(next.text()), "seen 7: u2 q/p2@q 3/0")
		full := record{Pods: []reservation{{Pod: "q/x", json: string(make([]byte, maxRecord/2))}}}
		expect(t, "half is full", a.enter(&full, []reservation{b.room(onePod(2), false)}, b.Ledger.revoked), false)
	})
}

// The share of a new grant.
func TestShare(t *testing.T) {
	for in, want := range map[string]string{"-5": "0", "0": "0", "5": "1249m", "1000": "249999m", "2Pi": "562949953421311"} {
		got := quarter(amounts("cpu=" + in)[corev1.ResourceCPU])
		expect(t, "a quarter of "+in, got.String(), want)
	}
	b := lay(t, makeQuota("q", "", "cpu=100"))
	path := b.tree.Path("q")
	for _, c := range []struct{ limit, demand, want string }{
		{"cpu=1000", "cpu=10", "20/0"}, {"cpu=21", "cpu=10", "5249m/0"}, {"cpu=20", "cpu=10", "nil"}, {"", "cpu=10", "20/0"}, {"cpu=1000", "cpu=0", "0/0"},
	} {
		b.accounts.with(b.tree, func(a *accounts) {
			h := newHoldings(b.tree, a, nil, nil)
			share := h.share(path, demand{now: sum(amounts(c.demand)), pods: 10}, func(*quota.Quota) *quota.Quota { return makeQuota("q", "", c.limit) })
			got := "nil"
			if share != nil {
				got = inShort(corev1.ResourceList(share))
			}
			expect(t, fmt.Sprint(c), got, c.want)
		})
	}
}

// unread is a store whose pods cannot be listed at a version.
type unread struct{ *fakeStore }

func (unread) Pods(context.Context) (string, error) { return "", nil }

// The pods of a dead replica's grant are stored by the version that was read first, and without a version nothing is known.
func TestOverRules(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	one := reservation{Grant: true, Pod: "a/b", By: "r2", Request: api.ResourceList{}}
	b.Pods().Put(seenPod(onePod(1), 7))
	b.store.version = 8
	ask := func() string { seen, over := b.pending.over(t.Context(), &one); return fmt.Sprint(seen, " ", over) }
	b.options.Store = unread{b.store}
	expect(t, "no version", ask(), " false")
	b.options.Store = b.store
	expect(t, "behind", ask(), "7 false")
	b.store.version = 20
	b.Pods().Reached("9")
	expect(t, "the version that was read first, and the last pod", ask(), "7 true")
}

// The others' grants: the longest counts, and a recall stays as long as one of them may be spent.
func TestFoundRules(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	first, second := reservation{Grant: true, Pod: "a/b", By: "r2"}, reservation{Grant: true, Pod: "a/c", By: "r3"}
	b.Ledger.grants.age(&first, b.clock)
	b.Ledger.grants.age(&second, b.clock.Add(-time.Second))
	expect(t, "the longest", b.Ledger.grants.longest(record{Pods: []reservation{first, second}}, b.options.Now(), func(*reservation) bool { return true }), grantEnd)
	expect(t, "a recall stays", (&recall{live: true, before: "r9"}).by(), "r9")
	old := b.store.get("q")
	b.store.set(makeQuota("q", "", "cpu=8"))
	now, err := b.records.objectSince(t.Context(), old.Quota, b.store.get("q").Version)
	expect(t, "a version that the watch has not shown", now.Version, b.store.get("q").Version)
	expect(t, "error", err, nil)
}

// While a recall stands, no replica takes a new grant.
func TestNoGrantWhileRecalled(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		now := b.store.get("q")
		found, _ := parseRecord(now.Record)
		found.Recall = "r3"
		_, _ = b.store.swap(keyOf(now.Quota), now.Version, found.text())
		r2.show("q")
		for i := 20; i < 28; i++ {
			r2.admit(t, i, i)
		}
		expect(t, "no grant of r2", b.grants(t, "q"), "r1 q: 10/0, recalled by r3, 13 pods")
		rows, err := r2.Report()
		expect(t, "what can be recalled is not reported as reserved", rows[0].Resources, "[cpu: used 0, reserved 13, limit 100 (spec.max)]")
		expect(t, "error", err, nil)
	})
}

// A replica that is behind when it ends gives back its grants as soon as it is not.
func TestGrantBehindAtTheEnd(t *testing.T) {
	inBubble(t, "cpu=100", func(t *testing.T, b *bench, r1, r2 *watcher) {
		r2.show("q")
		r2.Pods().Put(seenPod(onePod(1), 2))
		r2.sweep(t.Context())
		r1.show("q")
		go r1.giveBack(t.Context())
		time.Sleep(grantUse / 10)
		r1.Pods().Reached("2")
		time.Sleep(grantUse / 10)
		expect(t, "given back", b.grants(t, "q"), "4 pods")
	})
}

// A record that a replica cannot write when it ends does not keep it from giving back its grants in others.
func TestGrantsOfManyAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"q", "a", "b", "c", "d", "e"}
		var quotas []*quota.Quota
		for _, name := range names {
			quotas = append(quotas, makeQuota(name, "", "cpu=100"))
		}
		b := lay(t, quotas...)
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		for _, name := range names {
			for i := range 5 {
				expect(t, "a pod", b.reserve(r1.Ledger, ask(makePod(fmt.Sprintf("%s/p%d", name, i), fmt.Sprint(name, i), "cpu=1"))), "granted")
			}
		}
		r2.show("q")
		r2.Pods().Put(seenPod(makePod("q/p0", "q0", "cpu=1"), 2))
		r2.sweep(t.Context()) // r1 has not seen the pod
		r1.show("q")
		r1.giveBack(t.Context())
		for _, name := range names[1:] {
			expect(t, name, b.grants(t, name), "5 pods")
		}
	})
}

// No grant is taken in a quota of another tree, in a full record, or with a plan that recalls others.
func TestTakeGrantsRules(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=100"), makeQuota("other", "", "cpu=100"))
	q, _ := b.tree.Get("q")
	v := view{tree: b.tree, top: Object{Quota: q}, now: b.clock}
	wants := demand{since: b.clock, now: sum(amounts("cpu=10")), pods: 10}
	for _, c := range []struct {
		name, quota string
		stopped     bool
		bytes       int
		want        string
	}{{"room", "q", false, 0, "20/0"}, {"another tree", "other", false, 0, "0/0"}, {"stopped", "q", true, 0, "0/0"}, {"a full record", "q", false, maxRecord, "0/0"}} {
		b.accounts.with(b.tree, func(a *accounts) {
			p := &grantPlan{of: map[string]plannedGrant{}, demand: map[string]demand{c.quota: wants}}
			spent := budget{all: c.bytes, of: map[string]int{}}
			p.take(v, newHoldings(b.tree, a, nil, nil), func([]*quota.Quota) bool { return c.stopped }, &spent)
			expect(t, c.name, inShort(corev1.ResourceList(p.of[c.quota].room)), c.want)
		})
	}
	recalls := &round{recall: &recall{needed: true, replica: "r1"}}
	expect(t, "a plan that recalls", recalls.stops(b.tree.Path("q")), true)
}

// A change of a quota that is gone, or that concerns no grant in its record, recalls nothing.
func TestRecallFromRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lay(t, makeQuota("top", "", "cpu=200"), makeQuota("q", "top", "cpu=100"), makeQuota("other", "top", "cpu=100"))
		r1, r2 := b.watcher("r1"), b.watcher("r2")
		r1.admit(t, 1, 5)
		r2.show("top")
		top := b.store.get("top")
		expect(t, "another quota", r2.recallFrom(t.Context(), view{tree: r2.known.Load(), reached: r2.objects.reached()}, QuotaChange{Old: top.Quota, From: top.Version}, []string{"other"}), nil)
		expect(t, "the record", b.grants(t, "top"), "r1 q: 10/0, 5 pods")
		gone := makeQuota("gone", "", "")
		r2.options.Store = goneStore{b.store}
		expect(t, "gone", r2.recallFrom(t.Context(), view{tree: r2.known.Load()}, QuotaChange{Old: gone, From: "9"}, []string{"gone"}), nil)
		r1.giveBack(t.Context())
	})
}

// goneStore is a store without objects.
type goneStore struct{ *fakeStore }

func (goneStore) Read(context.Context, types.NamespacedName) (Object, error) {
	return Object{}, ErrGone
}
