package quota

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/test/quotatest"
	"usher.dev/usher/test/seed"
)

// TestChanges: after any sequence of changes a tree has what a tree of the same quotas has, and what is found by looking
// at all of them again; and no tree before has changed.
func TestChanges(t *testing.T) {
	random := seed.Random(t)
	for range 1000 {
		stored, tree := map[types.NamespacedName]*Quota{}, NewTree(nil)
		for range 10 {
			changes := map[types.NamespacedName]*Quota{}
			for range 1 + random.IntN(3)*random.IntN(3) {
				id, q := randomChange(random, stored)
				changes[id] = q
			}
			before, was := tree, tell(tree)
			tree = tree.With(changes)
			for id, q := range changes {
				if stored[id] = q; q == nil {
					delete(stored, id)
				}
			}
			list := slices.Collect(maps.Values(stored))
			got, again, plain := tell(tree), tell(NewTree(list)), tellPlainly(list)
			if got != again || got != plain {
				t.Fatalf("%s\nafter %v\n%s\na new tree\n%s\nplainly\n%s", was, changes, got, again, plain)
			}
			if got, want := sumsOf(tree), sumsOf(NewTree(list)); got != want {
				t.Fatalf("%s\nafter %v\n%s\nsums %s, want %s", was, changes, tell(tree), got, want)
			}
			if moved := wronglyStill(before, tree); moved != "" {
				t.Fatalf("%s\nafter %v\n%s\nand it is not known that pods move: %s", was, changes, got, moved)
			}
			if tell(before) != was {
				t.Fatalf("%s\nwas changed to\n%s", was, tell(before))
			}
		}
	}
}

// randomChange changes, moves, adds or removes one of 16 quotas, of which two have each name.
func randomChange(random *rand.Rand, stored map[types.NamespacedName]*Quota) (types.NamespacedName, *Quota) {
	pick := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	id := types.NamespacedName{Namespace: fmt.Sprint("ns", max(0, random.IntN(4)-2)), Name: pick("q0", "q1", "q2", "q3", "q4", "q5", "ns0", "ns1")}
	now, known := stored[id]
	if known && random.IntN(4) == 0 {
		return id, nil
	}
	q := &Quota{Namespace: id.Namespace, Name: id.Name, Parent: api.RootQuota, Created: quotatest.Noon.Add(time.Duration(random.IntN(3)) * time.Hour)}
	if known {
		*q = *now
	}
	q.UID = types.UID(fmt.Sprint(random.Uint64()))
	switch random.IntN(5) {
	case 0:
		q.Parent = pick(api.RootQuota, "q0", "q1", "q2", "q3", "q4", "lost")
	case 1:
		q.Namespaces = [][]string{nil, {"a"}, {"b", "a"}, {"c", "c"}, {"ns1"}}[random.IntN(5)]
	case 2:
		q.Min = []corev1.ResourceList{nil, {"cpu": resource.MustParse("1")}, {"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1Gi")},
			{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1073741824")}}[random.IntN(4)]
	case 3:
		q.IsParent, q.TreeID = random.IntN(3) > 0, pick("", "", "t")
	case 4:
		q.IsRoot, q.Force = random.IntN(4) == 0, random.IntN(4) == 0
	}
	return id, q
}

// tell describes a tree.
func tell(t *Tree) string {
	var b strings.Builder
	for _, name := range append(t.Names(), "lost", api.RootQuota) {
		q, ok := t.Get(name)
		fmt.Fprintf(&b, "%s %v %v children %v\n", name, ok, idOf(q), t.Children(name))
		for _, flaw := range t.FlawsOf(name) {
			fmt.Fprintln(&b, "\t", flaw.Kind, flaw)
		}
	}
	for _, namespace := range []string{"a", "b", "c", "ns1"} {
		fmt.Fprintln(&b, namespace, idOf(t.HolderOf(namespace)))
	}
	for _, problem := range t.Problems() {
		flaw, _ := errors.AsType[*Flaw](problem)
		fmt.Fprintln(&b, flaw.Kind, flaw.Quotas, problem)
	}
	return b.String()
}

// sumsOf describes the sums of min.
func sumsOf(t *Tree) string {
	var list []string
	for parent, sum := range t.sums.All() {
		for name, amount := range sum {
			list = append(list, fmt.Sprint(parent, name, amount.Value()))
		}
	}
	slices.Sort(list)
	return fmt.Sprint(t.sums.Len(), list)
}

func idOf(q *Quota) string {
	if q == nil {
		return "none"
	}
	return q.Namespace + "/" + q.Name + " " + string(q.UID)
}

// tellPlainly describes the tree of some quotas, found by looking at all of them.
func tellPlainly(list []*Quota) string {
	p := plainly(list)
	flaws := slices.Concat(p.claims, p.parents(), p.sums(), p.cycles())
	slices.SortFunc(flaws, func(a, b *Flaw) int { return cmp.Compare(a.text, b.text) })
	var b strings.Builder
	for _, name := range append(slices.Sorted(maps.Keys(p.counts)), "lost", api.RootQuota) {
		q, ok := p.counts[name]
		fmt.Fprintf(&b, "%s %v %v children %v\n", name, ok, idOf(q), p.children(name))
		for _, flaw := range flaws {
			if slices.Contains(flaw.Quotas, name) {
				fmt.Fprintln(&b, "\t", flaw.Kind, flaw)
			}
		}
	}
	for _, namespace := range []string{"a", "b", "c", "ns1"} {
		fmt.Fprintln(&b, namespace, idOf(p.holders[namespace]))
	}
	for _, flaw := range flaws {
		fmt.Fprintln(&b, flaw.Kind, flaw.Quotas, flaw)
	}
	return b.String()
}

// plain holds quotas in maps, and finds flaws by a search of all of them: the oracle for Tree.
type plain struct {
	counts, holders map[string]*Quota
	claims          []*Flaw // double names and contested namespaces
}

func plainly(list []*Quota) plain {
	p := plain{map[string]*Quota{}, map[string]*Quota{}, nil}
	for _, q := range slices.SortedFunc(slices.Values(list), byAge) {
		if first := p.counts[q.Name]; first != nil {
			p.claims = append(p.claims, flaw(FlawDouble, []string{q.Name}, "elastic quota %s is in namespace %s and in namespace %s, but names are global: the one in %s, which is older, counts; delete the other",
				q.Name, first.Namespace, q.Namespace, first.Namespace))
			continue
		}
		p.counts[q.Name] = q
		for _, namespace := range slices.Compact(slices.Clone(q.Namespaces)) {
			if first := p.holders[namespace]; first != nil {
				p.claims = append(p.claims, flaw(FlawContested, []string{first.Name, q.Name}, "elastic quotas %s and %s both list namespace %s: its pods count against %s, which is older; take it out of one",
					first.Name, q.Name, namespace, first.Name))
				continue
			}
			p.holders[namespace] = q
		}
	}
	return p
}

func (p plain) children(name string) []string {
	list := []string{}
	for _, q := range p.counts {
		if q.Parent == name {
			list = append(list, q.Name)
		}
	}
	slices.Sort(list)
	return list
}

func (p plain) parents() (flaws []*Flaw) {
	for _, q := range p.counts {
		parent := p.counts[q.Parent]
		switch {
		case q.Parent == api.RootQuota:
			continue
		case parent == nil:
			flaws = append(flaws, flaw(FlawNoParent, []string{q.Name}, "elastic quota %s: its parent %s does not exist; create that, or give it another", q.Name, q.Parent))
			continue
		case !parent.IsParent:
			flaws = append(flaws, flaw(FlawLeaf, []string{q.Name, q.Parent}, "elastic quota %s: its parent %s has no label %s=true; set it", q.Name, q.Parent, api.LabelQuotaIsParent))
		}
		if parent.TreeID != q.TreeID {
			flaws = append(flaws, flaw(FlawTree, []string{q.Name, q.Parent}, "elastic quota %s: its tree id %q is not that of its parent %s, which is %q", q.Name, q.TreeID, q.Parent, parent.TreeID))
		}
	}
	return flaws
}

func (p plain) sums() (flaws []*Flaw) {
	for _, parent := range p.counts {
		children, quotas := p.children(parent.Name), []*Quota{}
		for _, child := range children {
			quotas = append(quotas, p.counts[child])
		}
		sum := SumOfMin(quotas)
		for _, name := range quantity.Exceeding(sum, parent.Min) {
			if len(children) > 0 && !parent.Exempt() {
				flaws = append(flaws, flaw(FlawSum, append([]string{parent.Name}, children...), "elastic quota %s: the min of its children makes %s %s, more than its own %s; raise it, or lower theirs (%s)",
					parent.Name, quantity.AmountOf(sum, name), name, quantity.AmountOf(parent.Min, name), admit.SomeNames(children)))
			}
		}
	}
	return flaws
}

// cycles follows the parents of each quota. A cycle belongs to its first name.
func (p plain) cycles() (flaws []*Flaw) {
	for first := range p.counts {
		way := []string{first}
		for q := p.counts[p.counts[first].Parent]; q != nil && q.Name != first && len(way) <= len(p.counts); q = p.counts[q.Parent] {
			way = append(way, q.Name)
		}
		if p.counts[way[len(way)-1]].Parent != first || slices.Min(way) != first || len(way) > len(p.counts) {
			continue
		}
		text := strings.Join(append(slices.Clone(way), first), " -> ")
		if len(way) > 3 {
			text = strings.Join(way[:4], " -> ") + " -> ..."
		}
		flaws = append(flaws, flaw(FlawCycle, append(way[1:], first), "elastic quotas stand below themselves: %s; give one of them another parent", text))
	}
	return flaws
}

// wronglyStill returns a name or a namespace whose pods count elsewhere than in the tree before, and of which Moved does not
// say so.
func wronglyStill(before, after *Tree) string {
	names, namespaces := after.Moved(before)
	for _, name := range append(slices.Concat(before.Names(), after.Names()), "lost") {
		if pathOf(before, name) != pathOf(after, name) && !names[name] {
			return name
		}
	}
	for _, namespace := range []string{"a", "b", "c", "ns0", "ns1"} {
		key := BindingKey{Namespace: namespace}
		if before.Bind(key, false).Name != after.Bind(key, false).Name && !namespaces[namespace] {
			return "namespace " + namespace
		}
	}
	return ""
}

// TestMovedLittle: little moves for a little change.
func TestMovedLittle(t *testing.T) {
	tree := treeOf(t, "top is-parent=true\na parent=top is-parent=true\na1 parent=a namespaces=n\nb parent=top\nlone@lone")
	for short, want := range map[string]string{
		"top is-parent=true max=cpu:1 min=cpu:1": "map[] map[]", "a parent=b is-parent=true": "map[a:true a1:true] map[]",
		"a1 parent=a namespaces=m": "map[] map[m:true n:true]", "b parent=top tree-id=t": "map[] map[]", "new@new parent=a": "map[new:true] map[new:true]",
		"lone@lone age=1": "map[] map[]",
	} {
		q := quotaOf(t, short)
		names, namespaces := tree.With(map[types.NamespacedName]*Quota{q.Identity(): q}).Moved(tree)
		if got := fmt.Sprint(names, " ", namespaces); got != want {
			t.Errorf("%s: %s, want %s", short, got, want)
		}
	}
}

// BenchmarkChangedQuota changes the limits of a quota, or moves it, among others below the root quota and below a quota of
// their own.
func BenchmarkChangedQuota(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for _, parent := range []string{api.RootQuota, "top"} {
			top := &Quota{Namespace: "n", Name: "top", Parent: api.RootQuota, IsParent: true, Min: quotatest.Amounts("cpu=1000000 memory=1Pi")}
			all := []*Quota{top}
			for i := range n {
				all = append(all, &Quota{Namespace: "n", Name: fmt.Sprint("q", i), Parent: parent, Namespaces: []string{fmt.Sprint("n", i)},
					Min: quotatest.Amounts("cpu=1 memory=1Gi"), Max: quotatest.Amounts("cpu=10 memory=10Gi")})
			}
			tree := NewTree(all)
			limits, moved := *all[n/2], *all[n/2]
			limits.Max, moved.Parent = quotatest.Amounts("cpu=9"), "q0"
			for _, q := range []*Quota{&limits, &moved} {
				kind := map[bool]string{true: "moved", false: "limits"}[q == &moved]
				b.Run(fmt.Sprintf("quotas=%d/below=%s/%s", n, parent, kind), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						changed := tree.With(map[types.NamespacedName]*Quota{q.Identity(): q})
						changed.Problems()
						changed.Moved(tree)
					}
				})
			}
		}
	}
}
