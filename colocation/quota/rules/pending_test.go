package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/quotatest"

	"usher.dev/usher/test/seed"
)

// replica is one usher process: what it observes, and what it has pending.
type replica struct {
	*testing.T
	pending *Pending
	rules   Rules
	now     time.Time
	stored  []string    // quotas in short, as they are stored
	tree    *quota.Tree // as observed by the replica
}

func newReplica(t *testing.T, stored ...string) *replica {
	r := &replica{T: t, rules: calm(), now: quotatest.Noon, stored: stored}
	r.pending = NewPending(func() time.Time { return r.now })
	r.sync()
	return r
}

// sync brings the watch up to date.
func (r *replica) sync() { r.tree = treeOf(r.T, r.stored...) }

func (r *replica) asked() (*quota.Tree, error) { return r.tree, nil }

// admit sends a change, old and new in short notation, and compares the verdict.
func (r *replica) admit(about, old, new string, wants ...string) {
	r.Helper()
	change := Change{quotaOf(r, old), quotaOf(r, new)}
	for range 2 { // a dry run gives the same and stores nothing
		rehearsed, err := r.pending.Judge(r.rules, r.asked, change)
		if err != nil {
			r.Errorf("%s: %v", about, err)
		}
		quotatest.WantTexts(r.T, about+", rehearsed", told(rehearsed), wants...)
	}
	verdict, err := r.pending.Admit(r.rules, r.asked, change)
	if err != nil {
		r.Errorf("%s: %v", about, err)
	}
	quotatest.WantTexts(r.T, about, told(verdict), wants...)
}

// sees returns which of the quotas q, r, s, t the overlaid tree has, with their min.
func (r *replica) sees() string {
	r.Helper()
	tree, err := r.pending.Over(r.asked)
	if err != nil {
		r.Error(err)
	}
	var seen []string
	for _, name := range tree.Names() {
		q, _ := tree.Get(name)
		seen = append(seen, strings.TrimSpace(fmt.Sprint(name, " ", quotatest.InShort(q.Min))))
	}
	return strings.Join(seen, ", ")
}

func (r *replica) wantSeen(about, want string) {
	r.Helper()
	if got := r.sees(); got != want {
		r.Errorf("%s: %s, want %s", about, got, want)
	}
}

const parentOfTen = "p is-parent=true min=cpu:10 max=cpu:10"

func TestPendingCreations(t *testing.T) {
	r := newReplica(t, parentOfTen)
	r.admit("one", "", "q parent=p min=cpu:6 max=cpu:10")
	r.admit("both are too much", "", "r parent=p min=cpu:6 max=cpu:10", `spec.min[cpu]: Invalid value: "6": makes 12`)
	r.wantSeen("a refused one leaves nothing behind", "p cpu=10, q cpu=6")
	r.admit("the first once more", "", "q parent=p min=cpu:6 max=cpu:10")
	r.admit("with another name", "", "s parent=p min=cpu:4 max=cpu:10")
	r.admit("the same name elsewhere", "", "s@elsewhere", "metadata.name")
	r.now = r.now.Add(pendingLasts - 1)
	r.admit("one more", "", "t parent=p max=cpu:10")
	r.admit("nothing is left", "", "r parent=p min=cpu:1 max=cpu:10", "makes 11")
	r.now = r.now.Add(1)
	r.wantSeen("the time is over, but for the last", "p cpu=10, t")
	r.now = r.now.Add(pendingLasts)
	r.wantSeen("the time is over", "p cpu=10")
	r.admit("now there is room", "", "r parent=p min=cpu:6 max=cpu:10")
}

// A repeated request is one change: what the tree shows after it is the truth.
func TestPendingRetries(t *testing.T) {
	r := newReplica(t, parentOfTen)
	for range 3 {
		r.admit("created", "", "q parent=p min=cpu:6 max=cpu:10")
	}
	r.stored = append(r.stored, "q parent=p min=cpu:6 max=cpu:10")
	r.sync()
	r.wantSeen("stored", "p cpu=10, q cpu=6")
	r.stored = r.stored[:1]
	r.sync()
	r.wantSeen("and deleted by another replica", "p cpu=10")
}

// The tree catches up with several changes one after the other, some of them from another replica.
func TestPendingBehind(t *testing.T) {
	state := func(min int) string { return fmt.Sprintf("q min=cpu:%d max=cpu:10", min) }
	r := newReplica(t, state(1))
	r.admit("another replica has made 2 of 1", state(2), state(3))
	r.admit("", state(3), state(4))
	r.admit("", state(4), state(5))
	for _, min := range []int{1, 2, 3, 4, 5} {
		r.stored[0] = state(min)
		r.sync()
		r.wantSeen(fmt.Sprint("the tree is at ", min), "q cpu=5")
	}
	r.stored[0] = state(3)
	r.sync()
	r.wantSeen("another replica goes back", "q cpu=3")
}

func TestPendingParent(t *testing.T) {
	r := newReplica(t)
	r.admit("parent", "", parentOfTen)
	r.admit("child", "", "q parent=p is-parent=true min=cpu:6 max=cpu:10")
	r.admit("grandchild", "", "r parent=q min=cpu:6 max=cpu:10")
	r.admit("a cycle of what is pending", "p is-parent=true min=cpu:10 max=cpu:10", "p parent=q is-parent=true min=cpu:10 max=cpu:10", "would put the quota below itself: p -> q -> p")
	r.admit("the parent is needed", parentOfTen, "", "p has children (q)")
	r.stored = []string{parentOfTen, "q parent=p is-parent=true min=cpu:6 max=cpu:10"}
	r.sync()
	r.wantSeen("two are seen", "p cpu=10, q cpu=6, r cpu=6")
	r.stored[1] = "q parent=p is-parent=true min=cpu:7 max=cpu:10" // another writer changes it
	r.sync()
	r.wantSeen("the tree is the truth", "p cpu=10, q cpu=7, r cpu=6")
	r.stored = r.stored[:1]
	r.sync()
	r.wantSeen("what was seen does not come back", "p cpu=10, r cpu=6")
}

func TestPendingUpdates(t *testing.T) {
	const small, large = "q parent=p min=cpu:1 max=cpu:10", "q parent=p min=cpu:9 max=cpu:10"
	r := newReplica(t, parentOfTen, small, "r parent=p min=cpu:1 max=cpu:10")
	r.admit("grows", small, large)
	r.admit("grows, once more", small, large)
	r.admit("what is left", "r parent=p min=cpu:1 max=cpu:10", "r parent=p min=cpu:2 max=cpu:10", "makes 11")
	r.admit("another label", large, large+" shared-weight=cpu:1") // replaces the first
	r.wantSeen("still", "p cpu=10, q cpu=9, r cpu=1")
	r.admit("nothing changes", large, large) // does not
	r.wantSeen("still", "p cpu=10, q cpu=9, r cpu=1")
	r.sync() // another tree, that shows the same
	r.wantSeen("still", "p cpu=10, q cpu=9, r cpu=1")
	r.stored[1] = large // the first of two
	r.sync()
	r.wantSeen("still", "p cpu=10, q cpu=9, r cpu=1")
	r.stored[1] = "q parent=p min=cpu:3 max=cpu:10" // not ours
	r.sync()
	r.wantSeen("the tree is the truth", "p cpu=10, q cpu=3, r cpu=1")
	r.stored[1] = small
	r.sync()
	r.wantSeen("forgotten", "p cpu=10, q cpu=1, r cpu=1")

	r.admit("grows again", small, large)
	r.now = r.now.Add(pendingLasts - 1)
	r.admit("nothing changes", large, large)
	r.now = r.now.Add(1)
	r.wantSeen("the time is over", "p cpu=10, q cpu=1, r cpu=1")

	r.admit("grows again", small, large)
	r.stored = []string{parentOfTen}
	r.sync()
	r.wantSeen("somebody deleted both", "p cpu=10")
}

// A change and its opposite, of which the tree shows neither, then the first, then both.
func TestPendingThereAndBack(t *testing.T) {
	const small, large = "q min=cpu:1 max=cpu:10", "q min=cpu:9 max=cpu:10"
	r := newReplica(t, small)
	r.admit("there", small, large)
	r.admit("and back", large, small)
	r.wantSeen("neither", "q cpu=1")
	r.stored[0] = large
	r.sync()
	r.wantSeen("the first", "q cpu=1")
	r.stored[0] = small
	r.sync()
	r.wantSeen("both", "q cpu=1")
}

func TestPendingUpdateOfPendingCreation(t *testing.T) {
	r := newReplica(t, parentOfTen)
	r.admit("one", "", "q parent=p min=cpu:6 max=cpu:10")
	r.admit("changes", "q parent=p min=cpu:6 max=cpu:10", "q parent=p min=cpu:9 max=cpu:10")
	r.wantSeen("not stored yet", "p cpu=10, q cpu=9")
	r.stored = append(r.stored, "q parent=p min=cpu:6 max=cpu:10")
	r.sync()
	r.wantSeen("the first is stored", "p cpu=10, q cpu=9")
	r.stored[1] = "q parent=p min=cpu:9 max=cpu:10"
	r.sync()
	r.wantSeen("both are stored", "p cpu=10, q cpu=9")
	r.stored = r.stored[:1]
	r.sync()
	r.wantSeen("and gone", "p cpu=10")
}

func TestPendingDeletions(t *testing.T) {
	const q = "q parent=p min=cpu:9 max=cpu:10 namespaces=a"
	r := newReplica(t, parentOfTen, q)
	r.admit("deleted", q, "")
	r.admit("deleted, once more", q, "")
	r.admit("its place and its namespace are free", "", "r parent=p min=cpu:9 max=cpu:10 namespaces=a")
	r.admit("so is its name", "", "q@elsewhere max=cpu:1")
	r.wantSeen("all three", "p cpu=10, q, r cpu=9")
	r.sync()
	r.wantSeen("not seen yet", "p cpu=10, q, r cpu=9")
	r.admit("no children any more", q, "")
	r.stored = []string{parentOfTen, "r parent=p min=cpu:9 max=cpu:10 namespaces=a", "q@elsewhere max=cpu:1"}
	r.sync()
	r.wantSeen("all three", "p cpu=10, q, r cpu=9")

	r = newReplica(t, parentOfTen, q)
	r.admit("deleted", q, "")
	r.stored[1] += " deleting"
	r.sync()
	r.wantSeen("it waits for a finalizer", "p cpu=10, q cpu=9")
	r.admit("deleted, once more", r.stored[1], "")
	r.admit("the finalizer goes", r.stored[1], r.stored[1])

	r = newReplica(t, parentOfTen, q)
	r.admit("deleted", q, "")
	r.stored[1] = "q parent=p min=cpu:3 max=cpu:10 uid=new"
	r.sync()
	r.wantSeen("another replica has admitted a new one", "p cpu=10, q cpu=3")

	r = newReplica(t, parentOfTen, q)
	r.admit("deleted", q, "")
	r.stored[1] = q + " uid=new"
	r.sync()
	r.wantSeen("another replica has admitted the same once more", "p cpu=10, q cpu=9")

	r = newReplica(t, parentOfTen, q)
	r.admit("deleted", q, "")
	r.now = r.now.Add(pendingLasts)
	r.wantSeen("it was not deleted", "p cpu=10, q cpu=9")
}

func TestPendingRecreation(t *testing.T) {
	const q = "q parent=p min=cpu:9 max=cpu:10"
	r := newReplica(t, parentOfTen, q)
	r.admit("deleted", q, "")
	r.admit("created", "", "q parent=p min=cpu:5 max=cpu:10 uid=new")
	r.wantSeen("as created", "p cpu=10, q cpu=5")
	r.sync()
	r.wantSeen("the old one is still seen", "p cpu=10, q cpu=5")
	r.stored[1] = "q parent=p min=cpu:5 max=cpu:10 uid=new"
	r.sync()
	r.stored = r.stored[:1]
	r.wantSeen("the new one is seen", "p cpu=10, q cpu=5")
	r.sync()
	r.wantSeen("and gone", "p cpu=10")
}

// Creating an existing quota is not stored: the API server refuses it.
func TestPendingCreationOfWhatIsThere(t *testing.T) {
	r := newReplica(t, parentOfTen, "q parent=p min=cpu:1 max=cpu:10")
	r.admit("once more", "", "q parent=p min=cpu:9 max=cpu:10")
	r.wantSeen("as it is", "p cpu=10, q cpu=1")
	r.admit("without a name", "", "@quotas parent=p max=cpu:10")
	r.wantSeen("as it is", "p cpu=10, q cpu=1")
}

// Of many concurrent requests, no more are admitted than fit.
func TestPendingAtOnce(t *testing.T) {
	r := newReplica(t, parentOfTen)
	admitted := make(chan bool, 100)
	var all sync.WaitGroup
	for i := range cap(admitted) {
		change := Change{New: quotaOf(t, fmt.Sprintf("q%d parent=p min=cpu:1 max=cpu:10", i))}
		all.Go(func() {
			verdict, err := r.pending.Admit(r.rules, r.asked, change)
			admitted <- err == nil && len(verdict.Problems) == 0
		})
	}
	all.Wait()
	n := 0
	for range cap(admitted) {
		if <-admitted {
			n++
		}
	}
	if n != 10 {
		t.Errorf("%d quotas with a min of 1 each were admitted below a parent with 10", n)
	}
}

// stuck admits a change, in short notation, whose judgement reads pods, and returns once it does. The judgement
// continues when release is called, and then sends its verdict.
func (r *replica) stuck(old, new string) (release func(), done <-chan []string) {
	looks, goOn, verdicts := make(chan bool), make(chan bool), make(chan []string, 1)
	rules := r.rules
	rules.HasPods = func(string) ([]string, int) {
		looks <- true
		<-goOn
		return nil, 0
	}
	stored, change := r.tree, Change{quotaOf(r, old), quotaOf(r, new)}
	go func() {
		verdict, err := r.pending.Admit(rules, func() (*quota.Tree, error) { return stored, nil }, change)
		if err != nil {
			r.Error(err)
		}
		verdicts <- told(verdict)
	}()
	<-looks
	return func() { close(goOn) }, verdicts
}

// soon calls do, which must not block.
func (r *replica) soon(about string, do func()) {
	r.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		r.Fatalf("%s: waits", about)
	}
}

// Readers do not wait for a slow judgement; another admission does, and is judged on top of it.
func TestPendingReadersDoNotWait(t *testing.T) {
	r := newReplica(t, parentOfTen, "q parent=p min=cpu:1 max=cpu:10")
	r.admit("pending before", "", "r parent=p min=cpu:1 max=cpu:10")
	release, first := r.stuck("q parent=p min=cpu:1 max=cpu:10", "q parent=p is-parent=true min=cpu:6 max=cpu:10")
	r.soon("Over", func() { r.wantSeen("meanwhile", "p cpu=10, q cpu=1, r cpu=1") })
	r.soon("Judge", func() {
		if _, err := r.pending.Judge(r.rules, r.asked, Change{New: quotaOf(r, "s")}); err != nil {
			r.Error(err)
		}
	})
	second := make(chan []string, 1)
	change := Change{New: quotaOf(r, "s parent=p min=cpu:4 max=cpu:10")}
	go func() {
		verdict, err := r.pending.Admit(r.rules, r.asked, change)
		second <- append(told(verdict), fmt.Sprint(err))
	}()
	select {
	case got := <-second:
		t.Fatalf("another was admitted meanwhile: %q", got)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	quotatest.WantTexts(t, "first", <-first)
	quotatest.WantTexts(t, "second", <-second, "makes 11 with the min of its siblings", "<nil>")
	r.wantSeen("after both", "p cpu=10, q cpu=6, r cpu=1")
}

// What a reader drops while a change is judged, because it sees a newer tree, stays dropped, and the change is stored
// as if the reader had come later.
func TestPendingForgottenMeanwhile(t *testing.T) {
	const one, two, three = "q min=cpu:1 max=cpu:10", "q min=cpu:2 max=cpu:10", "q is-parent=true min=cpu:3 max=cpu:10"
	r := newReplica(t, one)
	r.admit("one to two", one, two)
	r.admit("another", "", "r max=cpu:1")
	release, done := r.stuck(two, three)
	r.stored = []string{two, "r max=cpu:1"}
	r.sync()
	r.soon("Over", func() { r.wantSeen("two is seen", "q cpu=2, r") })
	release()
	quotatest.WantTexts(t, "two to three", <-done)
	r.wantSeen("three is pending", "q cpu=3, r")
	r.stored = []string{two}
	r.sync()
	r.wantSeen("what was seen does not come back", "q cpu=3")
	r.stored = []string{three}
	r.sync()
	r.wantSeen("three is seen", "q cpu=3")
	r.stored = []string{two}
	r.sync()
	r.wantSeen("the tree is the truth", "q cpu=2")
}

// A reader with an older tree sees everything on top of it that it does not show, even if another reader has a newer
// tree that does.
func TestPendingOlderTree(t *testing.T) {
	r := newReplica(t)
	r.admit("created", "", "q max=cpu:1")
	older, newer, done := r.tree, treeOf(t, "q max=cpu:1"), make(chan bool)
	tree, err := r.pending.Over(func() (*quota.Tree, error) {
		go func() {
			defer close(done)
			if _, err := r.pending.Over(func() (*quota.Tree, error) { return newer, nil }); err != nil {
				t.Error(err)
			}
		}()
		select { // the other may come first, if it can
		case <-done:
		case <-time.After(50 * time.Millisecond):
		}
		return older, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tree.Get("q"); !ok {
		t.Error("what was admitted is not seen")
	}
	<-done
}

// TestPendingShowsWhatWasAdmitted: while many changes are admitted and the watch follows, a reader after an admission
// sees it, pending or stored.
func TestPendingShowsWhatWasAdmitted(t *testing.T) {
	r := newReplica(t)
	var mu sync.Mutex
	quotas, tree := []*quota.Quota{quotaOf(t, parentOfTen)}, treeOf(t, parentOfTen)
	stored := func() (*quota.Tree, error) {
		mu.Lock()
		defer mu.Unlock()
		return tree, nil
	}
	sees := func(name string) {
		if now, err := r.pending.Over(stored); err != nil {
			t.Error(err)
		} else if _, ok := now.Get(name); !ok {
			t.Errorf("%s was admitted and is not seen", name)
		}
	}
	var all sync.WaitGroup
	for i := range 100 {
		q := quotaOf(t, fmt.Sprintf("q%d parent=p min=cpu:100m max=cpu:10", i))
		all.Go(func() {
			if verdict, err := r.pending.Admit(r.rules, stored, Change{New: q}); err != nil || len(verdict.Problems) > 0 {
				t.Error(verdict.Problems, err)
			}
			sees(q.Name)
			mu.Lock()
			quotas = append(quotas, q)
			tree = quota.NewTree(quotas)
			mu.Unlock()
			sees(q.Name)
		})
	}
	all.Wait()
	if Exceeds, err := r.pending.Over(stored); err != nil || Exceeds != tree {
		t.Errorf("all is stored, and %d are pending: %v", len(r.pending.entries), err)
	}
}

// TestAdmittedChangesKeepTheTreeInOrder: whatever the requests, and however late the watch, the changes that one
// replica admits leave no flaws in the stored tree.
func TestAdmittedChangesKeepTheTreeInOrder(t *testing.T) {
	random := seed.Random(t)
	admitted := 0
	for range 100 {
		r := newReplica(t)
		stored := map[types.NamespacedName]*quota.Quota{}
		seen := []*quota.Tree{quota.NewTree(nil)} // the tree after each change; the watch is at one of the last
		at := 0
		for range 80 {
			change := randomChange(t, random, stored)
			at = max(at, len(seen)-1-random.IntN(6))
			r.tree = seen[at]
			verdict, err := r.pending.Admit(r.rules, r.asked, change)
			if err != nil {
				t.Fatal(err)
			}
			id := change.Identity()
			if len(verdict.Problems) > 0 || change.Old == nil && stored[id] != nil {
				continue
			}
			admitted++
			if stored[id] = change.New; change.New == nil {
				delete(stored, id)
			}
			now := quota.NewTree(slices.Collect(maps.Values(stored)))
			if problems := now.Problems(); len(problems) > 0 {
				t.Fatalf("%v\nafter %s\nin\n%s", problems[0], cmp.Or(change.New, change.Old).Name, describe(now))
			}
			seen = append(seen, now)
		}
	}
	if admitted < 500 {
		t.Errorf("no more than %d changes were admitted: the test tests little", admitted)
	}
}

// randomChange creates, changes or deletes a quota. None is exempt from anything.
func randomChange(t *testing.T, random *rand.Rand, stored map[types.NamespacedName]*quota.Quota) Change {
	pick := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	short := fmt.Sprintf("q%d@ns%d", random.IntN(7), random.IntN(10)/9)
	short += pick("", fmt.Sprint(" parent=q", random.IntN(7)), fmt.Sprint(" parent=q", random.IntN(7))) + pick("", " is-parent=true", " is-parent=true")
	short += pick("", "", "", "", " tree-id=t") + " max=cpu:9" + pick(" min=cpu:1", " min=cpu:2", " min=cpu:4") + pick("", "", " namespaces=a", " namespaces=a,b")
	c := Change{New: quotaOf(t, short)}
	c.Old = stored[c.Identity()]
	switch {
	case c.Old == nil:
		c.New.UID = types.UID(fmt.Sprint(random.Uint64()))
	case random.IntN(8) == 0:
		c.New = nil
	default:
		c.New.UID = c.Old.UID
	}
	return c
}

// Internal errors are returned as such, and nothing is stored.
func TestPendingFailures(t *testing.T) {
	r := newReplica(t, parentOfTen, "q parent=p max=cpu:10")
	broken := errors.New("not synced")
	notYet := func() (*quota.Tree, error) { return nil, broken }
	change := Change{New: quotaOf(t, "x")}
	if _, err := r.pending.Judge(r.rules, notYet, change); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := r.pending.Admit(r.rules, notYet, change); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := r.pending.Over(notYet); !errors.Is(err, broken) {
		t.Error(err)
	}
	r.rules.NamespaceDeleting = func(string) (bool, error) { return false, broken }
	if _, err := r.pending.Admit(r.rules, r.asked, Change{Old: quotaOf(t, parentOfTen)}); !errors.Is(err, broken) {
		t.Error(err)
	}
	r.wantSeen("nothing happened", "p cpu=10, q")
}

// manyQuotas returns a hundred parents with a hundred children each.
func manyQuotas(t testing.TB) []*quota.Quota {
	var list []*quota.Quota
	for i := range 100 {
		parent := fmt.Sprint("p", i)
		list = append(list, quotaOf(t, parent+" is-parent=true min=cpu:1000 max=cpu:1000"))
		for j := range 99 {
			list = append(list, quotaOf(t, fmt.Sprintf("q%d-%d parent=%s min=cpu:1 max=cpu:10 namespaces=ns-%d-%d", i, j, parent, i, j)))
		}
	}
	return list
}

// BenchmarkJudge is a change in a tree of ten thousand quotas, without and with others pending.
func BenchmarkJudge(b *testing.B) {
	tree := quota.NewTree(manyQuotas(b))
	tree.Problems()
	change := Change{quotaOf(b, "q5-5 parent=p5 min=cpu:1 max=cpu:10"), quotaOf(b, "q5-5 parent=p5 min=cpu:2 max=cpu:10")}
	asked := func() (*quota.Tree, error) { return tree, nil }
	for _, c := range []struct {
		name string
		run  func(*Pending) error
	}{
		{"nothing pending", func(p *Pending) error { _, err := p.Judge(calm(), asked, change); return err }},
		{"one pending", func(p *Pending) error { _, err := p.Judge(calm(), asked, change); return err }},
		{"a burst", func(p *Pending) error { _, err := p.Admit(calm(), asked, change); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := NewPending(time.Now)
			if c.name != "nothing pending" {
				if _, err := p.Admit(calm(), asked, Change{New: quotaOf(b, "x max=cpu:1")}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := c.run(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGrow builds a tree of ten thousand quotas.
func BenchmarkGrow(b *testing.B) {
	list := manyQuotas(b)
	for b.Loop() {
		quota.NewTree(list)
	}
}

// describe lists the quotas of a tree with their parents.
func describe(t *quota.Tree) string {
	var b strings.Builder
	for _, name := range t.Names() {
		q, _ := t.Get(name)
		fmt.Fprintf(&b, "%s/%s below %s\n", q.Namespace, q.Name, q.Parent)
	}
	return b.String()
}
