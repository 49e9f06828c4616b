package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/test/growth"
	"usher.dev/usher/test/quotatest"

	"usher.dev/usher/test/seed"
)

func quotaOf(t testing.TB, short string) *Quota {
	t.Helper()
	if object := quotatest.Object(t, short); object != nil {
		return Of(object)
	}
	return nil
}

func treeOf(t testing.TB, lines ...string) *Tree {
	t.Helper()
	var quotas []*Quota
	for _, object := range quotatest.Objects(t, lines...) {
		quotas = append(quotas, Of(object))
	}
	return NewTree(quotas)
}

func pathOf(t *Tree, name string) string {
	var names []string
	for _, q := range t.Path(name) {
		names = append(names, q.Name)
	}
	return strings.Join(names, " ")
}

func TestPath(t *testing.T) {
	tree := treeOf(t, `top is-parent=true
		mid parent=top is-parent=true
		leaf parent=mid
		orphan parent=lost
		self parent=self
		b parent=c
		c parent=a
		a parent=b
		tail-2 parent=tail-1
		tail-1 parent=b
		koordinator-root-quota parent=leaf`)
	for name, want := range map[string]string{
		"leaf": "leaf mid top", "top": "top", "orphan": "orphan", "nobody": "", "self": "self",
		api.RootQuota: "", "a": "b c a", "b": "b c a", "c": "b c a", "tail-2": "tail-2 tail-1 b c a",
	} {
		if got := pathOf(tree, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if children := tree.Children(api.RootQuota); !slices.Equal(children, []string{"top"}) {
		t.Error(children)
	}
	if children := treeOf(t, "c parent=p age=3\na parent=p age=1\nb parent=p age=2").Children("p"); !slices.Equal(children, []string{"a", "b", "c"}) {
		t.Error(children)
	}
	if children := tree.Children("lost"); !slices.Equal(children, []string{"orphan"}) {
		t.Error(children)
	}
}

// A chain or a cycle of ten thousand costs little.
func TestPathOfLongChain(t *testing.T) {
	const n = 10_000
	for _, last := range []string{api.RootQuota, "q0", "q5000"} {
		quotas := []*Quota{{Name: fmt.Sprint("q", n-1), Parent: last, IsParent: true}}
		for i := range n - 1 {
			quotas = append(quotas, &Quota{Name: fmt.Sprint("q", i), Parent: fmt.Sprint("q", i+1), IsParent: true})
		}
		tree := NewTree(quotas)
		path := tree.Path("q0")
		if seen := map[*Quota]bool{}; len(path) != n {
			t.Errorf("%s: %d quotas", last, len(path))
		} else {
			for _, q := range path {
				seen[q] = true
			}
			if len(seen) != n {
				t.Errorf("%s: %d different quotas", last, len(seen))
			}
		}
		if flaws, cycle := tree.Problems(), last != api.RootQuota; (len(flaws) > 0) != cycle {
			t.Errorf("%s: %v", last, flaws)
		}
		growth.WantLinear(t, n/32, func(n int) func() {
			part := quotas[len(quotas)-n:]
			return func() { NewTree(part).Problems() }
		})
	}
}

func TestBind(t *testing.T) {
	tree := treeOf(t, `team-a@team-a
		team-b@elsewhere
		shared namespaces=team-b,team-a,x
		younger namespaces=x age=-1
		koordinator-default-quota namespaces=y`)
	for _, c := range []struct {
		holder    BindingKey
		labelOnly bool
		want      string
	}{
		{BindingKey{Namespace: "team-a"}, false, "team-a by namespace name"},
		{BindingKey{Namespace: "team-b"}, false, "shared by namespace annotation"},
		{BindingKey{Namespace: "x"}, false, "shared by namespace annotation"},
		{BindingKey{Namespace: "z"}, false, "koordinator-default-quota by default"},
		{BindingKey{Namespace: "y"}, false, "koordinator-default-quota by namespace annotation"},
		{BindingKey{Namespace: "team-a", Label: "shared", Labelled: true}, false, "shared by label"},
		{BindingKey{Namespace: "team-a", Labelled: true}, false, "team-a by namespace name"},
		{BindingKey{Namespace: "team-a", Label: "lost", Labelled: true}, false, "lost by label, unknown"},
		{BindingKey{Namespace: "team-a"}, true, " by label"},
		{BindingKey{Namespace: "team-a", Label: "shared", Labelled: true}, true, "shared by label"},
	} {
		b := tree.Bind(c.holder, c.labelOnly)
		got := b.Name + " by " + b.Via
		if b.Unknown() {
			got += ", unknown"
		}
		if got != c.want || (b.Quota != nil) != (b.Name != "" && b.Name != "lost" && !api.ReservedQuota(b.Name)) {
			t.Errorf("%+v: %s %v, want %s", c.holder, got, b.Quota, c.want)
		}
	}
}

// TestGrowInAnyOrder: a tree is the same whatever the order in which its quotas were learned, and so are its flaws.
func TestGrowInAnyOrder(t *testing.T) {
	random := seed.Random(t)
	for range 300 {
		quotas := randomQuotas(t, random)
		want := tellTree(NewTree(quotas))
		random.Shuffle(len(quotas), func(i, j int) { quotas[i], quotas[j] = quotas[j], quotas[i] })
		before := slices.Clone(quotas)
		if got := tellTree(NewTree(quotas)); got != want {
			t.Fatalf("%s\nin another order\n%s", want, got)
		}
		if !slices.Equal(before, quotas) {
			t.Fatal("Grow sorts the caller's list")
		}
	}
}

// TestWith: a tree with changes equals a tree of the changed quotas.
func TestWith(t *testing.T) {
	random := seed.Random(t)
	for range 300 {
		quotas := randomQuotas(t, random)
		tree := NewTree(quotas)
		before := tellTree(tree)
		change := randomQuotas(t, random)[0]
		id := change.Identity()
		rest := slices.DeleteFunc(slices.Clone(quotas), func(q *Quota) bool { return q.Identity() == id })
		if random.IntN(3) > 0 {
			rest = append(rest, change)
		} else {
			change = nil
		}
		if got, want := tellTree(tree.With(map[types.NamespacedName]*Quota{id: change})), tellTree(NewTree(rest)); got != want {
			t.Fatalf("%s\nwant\n%s", got, want)
		}
		if tellTree(tree) != before {
			t.Fatal("the tree itself changed")
		}
	}
}

// randomQuotas are some quotas, of which no two have the same name and namespace.
func randomQuotas(t *testing.T, random *rand.Rand) (quotas []*Quota) {
	pick := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	for _, i := range random.Perm(16)[:1+random.IntN(15)] {
		short := fmt.Sprintf("q%d@ns%d age=%d", i/2, i%2, random.IntN(3))
		short += pick("", " parent=", fmt.Sprint(" parent=q", random.IntN(8)), fmt.Sprint(" parent=q", random.IntN(8)))
		short += pick("", " is-parent=true") + pick("", " tree-id=t") + pick("", " is-root=true", " allow-force-update=true", "")
		short += pick("", " min=cpu:1", " min=cpu:1,memory:2") + pick("", " namespaces=a", " namespaces=a,b", " namespaces=c,c")
		quotas = append(quotas, quotaOf(t, short))
	}
	return quotas
}

func tellTree(t *Tree) string {
	var b strings.Builder
	for _, name := range t.Names() {
		q, _ := t.Get(name)
		fmt.Fprintf(&b, "%s/%s children %v path %s\n", q.Namespace, q.Name, t.Children(name), pathOf(t, name))
	}
	for _, namespace := range []string{"a", "b", "c", "ns0"} {
		fmt.Fprintln(&b, namespace, t.Bind(BindingKey{Namespace: namespace}, false).Name)
	}
	for _, problem := range t.Problems() {
		fmt.Fprintln(&b, problem)
	}
	return b.String()
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		tree  string
		wants []string
	}{
		{"p is-parent=true tree-id=t min=cpu:2 namespaces=a\nq parent=p tree-id=t min=cpu:1 namespaces=b\nr parent=p tree-id=t min=cpu:1", nil},
		{"q@one age=1\nq@two age=2\nq@three age=0", []string{
			"double-name q: elastic quota q is in namespace two and in namespace one, but names are global: the one in two, which is older, counts",
			"double-name q: elastic quota q is in namespace two and in namespace three"}},
		{"q namespaces=a,b age=1\nr namespaces=b,c,b age=0", []string{"contested-namespace q r: elastic quotas q and r both list namespace b: its pods count against q, which is older"}},
		{"q parent=q is-parent=true", []string{"cycle q: elastic quotas stand below themselves: q -> q;"}},
		{"a parent=b is-parent=true\nb parent=a is-parent=true\nc parent=a", []string{"cycle b a: elastic quotas stand below themselves: a -> b -> a;"}},
		{"a parent=d is-parent=true\nd parent=c is-parent=true\nc parent=b is-parent=true\nb parent=a is-parent=true", []string{"cycle d c b a: elastic quotas stand below themselves: a -> d -> c -> b -> ...;"}},
		{"q parent=lost", []string{"unknown-parent q: elastic quota q: its parent lost does not exist"}},
		{"p\nq parent=p", []string{"parent-is-leaf q p: elastic quota q: its parent p has no label"}},
		{"p is-parent=true\nq parent=p tree-id=t", []string{`tree-id q p: elastic quota q: its tree id "t" is not that of its parent p, which is ""`}},
		{"koordinator-root-quota\nq tree-id=t min=cpu:9", nil},
		{"p is-parent=true min=cpu:1,memory:1\nq parent=p min=cpu:1,memory:2\nr parent=p min=cpu:1000m", []string{
			"min-sum p q r: elastic quota p: the min of its children makes 2 cpu, more than its own 1; raise it, or lower theirs (q, r)", "min-sum p q r: ... makes 2 memory"}},
		{"p is-parent=true min=cpu:1\nq parent=p min=cpu:1\nr parent=p min=cpu:1 allow-force-update=true", []string{
			"min-sum p q r: elastic quota p: the min of its children makes 2 cpu, more than its own 1; raise it, or lower theirs (q, r)"}},
		{"p is-parent=true is-root=true\nq parent=p min=cpu:1", nil},
	} {
		var got []string
		for _, problem := range treeOf(t, c.tree).Problems() {
			flaw, _ := errors.AsType[*Flaw](problem)
			got = append(got, fmt.Sprintf("%s %s: %v", flaw.Kind, strings.Join(flaw.Quotas, " "), flaw))
		}
		quotatest.WantTexts(t, c.tree, got, c.wants...)
	}
}

func TestOf(t *testing.T) {
	q := quotaOf(t, `q@n parent= is-parent=True is-root=true allow-force-update=true tree-id=t min=cpu:1 max=cpu:2 used=cpu:3 namespaces=b,a admission=cpu:4 guaranteed=!{} shared-weight=! max-strict-check-resource-keys=!["cpu"] age=1 deleting uid=u`)
	got := fmt.Sprintf("%s %s %v %v %v %v %s %s %s %v %s %v %v %v %s %v %v", q.Identity(), q.Parent, q.IsParent, q.IsRoot, q.Force, q.TreeID,
		quotatest.InShort(q.Min), quotatest.InShort(q.Max), quotatest.InShort(q.Used), q.Namespaces, quotatest.InShort(q.Admission), len(q.Guaranteed), len(q.SharedWeight), q.StrictKeys, q.UID, q.Deleting, len(q.Problems))
	if want := "n/q koordinator-root-quota false true true t cpu=1 cpu=2 cpu=3 [b a] cpu=4 0 0 [cpu] u true 0"; got != want || q.Created != quotatest.Noon.Add(-time.Hour) {
		t.Errorf("%s %s\nwant %s", got, q.Created, want)
	}
	if root := quotaOf(t, api.RootQuota+" parent=x"); root.Parent != "" {
		t.Errorf("the root quota has the parent %s", root.Parent)
	}
	for name, want := range map[string]string{"cpu": "4 annotation " + api.AnnotationQuotaAdmission + " true", "memory": "0 spec.max false"} {
		limit, source, limited := q.Limit(corev1.ResourceName(name))
		if got := fmt.Sprint(limit.String(), " ", source, " ", limited); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
