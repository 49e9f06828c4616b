package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/seed"
)

// TestTenantStaysWithin: after any number of changes that a tenant may make, all quotas of his namespace are below its
// boundaries, which are as they were, and so are the quotas and the pods of others.
func TestTenantStaysWithin(t *testing.T) {
	random := seed.Random(t)
	rules := tenantRules()
	allowed, refused := map[string]int{}, 0
	for range 40 {
		before := treeOf(t, tenancy)
		tree := before
		for range 250 {
			c := tenantChange(t, random, tree)
			over, err := rules.Overreach(tree, c)
			verdict, failed := rules.Judge(tree, c)
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if len(over)+len(verdict.Problems) > 0 {
				refused++
				continue
			}
			tree = tree.With(map[types.NamespacedName]*quota.Quota{c.Identity(): c.New})
			allowed[fmt.Sprintf("old %v, new %v", c.Old != nil, c.New != nil)]++
			if wrong := trespass(before, tree); wrong != "" {
				t.Fatalf("%+v to %+v: %s", c.Old, c.New, wrong)
			}
		}
	}
	for _, kind := range []string{"old false, new true", "old true, new true", "old true, new false"} {
		if allowed[kind] < 100 || refused < 1000 {
			t.Errorf("too little happened: %v allowed, %d refused", allowed, refused)
		}
	}
}

// tenantChange returns a change of a quota of namespace team-a.
func tenantChange(t *testing.T, random *rand.Rand, tree *quota.Tree) Change {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	names := []string{"team-a", "team-a-x", "team-a-y", "team-a-z", "team-a-1", "team-a-2", "team-a-qa", "team-a-ghost", "team-b", "team-d", "a", "b", "lost"}
	name := pick(names...)
	old := tree.At(types.NamespacedName{Namespace: "team-a", Name: name})
	if old != nil && old.Namespace != "team-a" {
		old = nil
	}
	if old != nil && random.IntN(4) == 0 {
		return Change{Old: old}
	}
	parent := pick(append(names, "all", "c", api.RootQuota, "nothing", "")...)
	if old != nil && random.IntN(2) == 0 {
		parent = old.Parent
	} else if random.IntN(2) == 0 {
		parent = pick("a", "team-a-x", "team-a-z", "team-a-1")
	}
	words := []string{name + "@team-a", "parent=" + parent, fmt.Sprintf("max=cpu:%d", 1+random.IntN(9)), "is-parent=" + pick("true", "true", "false")}
	for _, rare := range []string{"is-root=true", "allow-force-update=true", "tree-id=t", "admission=cpu:99", "min=cpu:1", "namespaces=team-b", "namespaces=team-a,team-d"} {
		if random.IntN(20) == 0 {
			words = append(words, rare)
		}
	}
	if random.IntN(8) == 0 {
		words = append(words, "namespaces=team-a")
	}
	return Change{Old: old, New: quotaOf(t, strings.Join(words, " "))}
}

// trespass returns what a tenant of namespace team-a has changed that is not his, or "".
func trespass(before, after *quota.Tree) string {
	names := func(path []*quota.Quota) (list []string) {
		for _, q := range path {
			list = append(list, q.Namespace+"/"+q.Name)
		}
		return list
	}
	isBoundary := func(name string) bool { return name == "team-a/a" || name == "team-a/lost" }
	for _, name := range before.Names() {
		was, _ := before.Get(name)
		is, known := after.Get(name)
		kept := known && is.Namespace == was.Namespace && same(is, was) && slices.Equal(names(before.Path(name)), names(after.Path(name)))
		if (was.Namespace != "team-a" || isBoundary("team-a/"+name)) && !kept {
			return fmt.Sprintf("quota %s is %+v, below %v", name, is, names(after.Path(name)))
		}
	}
	for _, name := range after.Names() {
		_, known := before.Get(name)
		if own := name == "team-a" || strings.HasPrefix(name, "team-a-") && name != "team-a-qa" && name != "team-a-ghost"; !known && !own {
			return "the name " + name + " is taken"
		}
		if q, _ := after.Get(name); q.Namespace == "team-a" && !slices.ContainsFunc(names(after.Path(name)), isBoundary) {
			return fmt.Sprintf("quota %s is below %v", name, names(after.Path(name)))
		}
	}
	for _, namespace := range []string{"team-b", "team-c", "team-d", "team-a-qa", "quota-system"} {
		key := quota.BindingKey{Namespace: namespace}
		if was, is := before.Bind(key, false), after.Bind(key, false); was.Name != is.Name {
			return fmt.Sprintf("pods of %s are in %+v, not in %+v", namespace, is, was)
		}
	}
	return ""
}
