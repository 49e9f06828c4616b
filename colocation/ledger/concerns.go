package ledger

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// concerns returns the quotas whose pods must not be decided on before a change is observed, and the tops of the trees
// that they are in before or after it. A change that only gives room concerns none. The quota itself is never among the
// tops: its own write conflicts with any decision that is written there, and a webhook must not write to the object under
// review, because the API server would then ask again. named means that pods already belong to the name of a new quota: exempt pods, or
// those of a quota of that name which was deleted with its namespace.
func concerns(tree *quota.Tree, c QuotaChange, labelOnly, named bool) (tops []*quota.Quota, names []string) {
	id := c.identity()
	before, after := having(tree, id, c.Old), having(tree, id, c.New)
	all := map[string]bool{}
	switch {
	case c.Old == nil:
		if named {
			joins(all, nil, after.Path(id.Name))
		}
		for _, child := range after.Children(id.Name) { // it had named the quota as its parent, which did not exist
			if from, to := before.Path(child), after.Path(child); len(to) > len(from) {
				all[child] = true
				joins(all, from, to)
			}
		}
	case c.New == nil:
		all[id.Name] = true
	default:
		if tightens(c.Old, c.New) || c.Old.Parent != c.New.Parent {
			all[id.Name] = true
		}
		joins(all, before.Path(id.Name), after.Path(id.Name))
	}
	for _, namespace := range namespacesOf(c) {
		key := quota.BindingKey{Namespace: namespace}
		was, is := before.Bind(key, labelOnly), after.Bind(key, labelOnly)
		if was.Name != is.Name {
			if was.Quota != nil {
				all[was.Name] = true
			}
			joins(all, before.Path(was.Name), after.Path(is.Name))
		}
	}
	at := map[string]*quota.Quota{}
	for name := range all {
		for _, path := range [][]*quota.Quota{before.Path(name), after.Path(name)} {
			if len(path) > 0 && path[len(path)-1].Identity() != id && !api.ReservedQuota(name) {
				at[path[len(path)-1].Name] = path[len(path)-1]
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		tops = append(tops, at[name])
	}
	return tops, slices.Sorted(maps.Keys(all))
}

// having returns the tree with a state of a quota that treats pods equally.
func having(tree *quota.Tree, id types.NamespacedName, q *quota.Quota) *quota.Tree {
	if sameForPods(tree.At(id), q) {
		return tree
	}
	return tree.With(map[types.NamespacedName]*quota.Quota{id: q})
}

// joins adds the quotas of a path whose sums grow because pods move to it from another path.
func joins(all map[string]bool, from, to []*quota.Quota) {
	for _, q := range to {
		if !slices.ContainsFunc(from, func(other *quota.Quota) bool { return other.Name == q.Name }) {
			all[q.Name] = true
		}
	}
}

// namespacesOf returns the namespaces that a change may bind to another quota.
func namespacesOf(c QuotaChange) []string {
	lists := map[string]int{}
	for _, q := range []*quota.Quota{c.Old, c.New} {
		if q == nil {
			continue
		}
		own := q.Namespaces
		if q.Name == q.Namespace {
			own = append(slices.Clone(own), q.Name)
		}
		for _, namespace := range slices.Compact(slices.Sorted(slices.Values(own))) {
			lists[namespace]++
		}
	}
	both := c.Old != nil && c.New != nil
	maps.DeleteFunc(lists, func(_ string, n int) bool { return both && n == 2 })
	return slices.Sorted(maps.Keys(lists))
}
