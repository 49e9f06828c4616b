package quota

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/internal/persistentmap"
)

// edit changes a copy of a tree, which shares with the original all that stays as it is. It is for one goroutine.
type edit struct {
	before         *Tree
	named, listing *persistentmap.Edit[rank]
	children       *persistentmap.Edit[[]string]
	sums           *persistentmap.Edit[corev1.ResourceList]
	own            map[string]bool // the parents whose lists of children are no longer shared with the tree before
	names          map[string]bool // the names of the quotas that were replaced
	namespaces     map[string]bool // the namespaces that other quotas list than before
}

func (t *Tree) edit() *edit {
	return &edit{before: t, named: t.named.Edit(), listing: t.listing.Edit(), children: t.children.Edit(), sums: t.sums.Edit(),
		own: map[string]bool{}, names: map[string]bool{}, namespaces: map[string]bool{}}
}

// done returns the tree with the changes.
func (e *edit) done() *Tree {
	t := &Tree{named: e.named.Done(), listing: e.listing.Done(), children: e.children.Done(), sums: e.sums.Done()}
	t.flaws = e.judge(t)
	return t
}

// replace replaces a quota with another of the same name. was is nil if the quota is new, and is is nil if it is removed.
func (e *edit) replace(name string, was, is *Quota) {
	before, _ := e.named.Get(name)
	after := before.replace(was, is)
	set(e.named, name, after)
	e.names[name] = true
	if before.first != after.first {
		e.move(before.first, after.first)
		e.add(before.first, (*Amount).Sub)
		e.add(after.first, (*Amount).Add)
		e.list(before.first, after.first)
	}
}

// set sets the quotas that claim a key, or deletes the key if none does.
func set(all *persistentmap.Edit[rank], key string, to rank) {
	if to.first == nil {
		all.Delete(key)
	} else {
		all.Set(key, to)
	}
}

// move changes the lists of children for a quota that counts instead of another.
func (e *edit) move(was, is *Quota) {
	from, to := parentOf(was), parentOf(is)
	if from == to {
		return
	}
	if from != "" {
		children := e.childrenOf(from)
		at, _ := slices.BinarySearch(children, was.Name)
		if children = slices.Delete(children, at, at+1); len(children) > 0 {
			e.children.Set(from, children)
		} else {
			e.children.Delete(from)
		}
	}
	if to != "" {
		children := e.childrenOf(to)
		at, _ := slices.BinarySearch(children, is.Name)
		e.children.Set(to, slices.Insert(children, at, is.Name))
	}
}

// parentOf returns the parent of a quota; empty if there is no quota.
func parentOf(q *Quota) string {
	if q == nil {
		return ""
	}
	return q.Parent
}

// childrenOf returns the children of a parent in a slice that the edit may modify.
func (e *edit) childrenOf(parent string) []string {
	children, _ := e.children.Get(parent)
	if !e.own[parent] {
		e.own[parent] = true
		return slices.Clone(children)
	}
	return children
}

// add adds the min of a quota to the sum of its parent's children, or subtracts it, as change does. The root quota has no sum: nothing
// would read it.
func (e *edit) add(q *Quota, change func(*Amount, Amount)) {
	parent := parentOf(q)
	if parent == "" || parent == api.RootQuota || len(q.Min) == 0 {
		return
	}
	sum, _ := e.sums.Get(parent)
	if sum = maps.Clone(sum); sum == nil {
		sum = corev1.ResourceList{}
	}
	for name, amount := range q.Min {
		total := sum[name].DeepCopy()
		if change(&total, amount); total.IsZero() {
			delete(sum, name)
		} else {
			sum[name] = total
		}
	}
	if len(sum) > 0 {
		e.sums.Set(parent, sum)
	} else {
		e.sums.Delete(parent)
	}
}

// list records that a quota no longer lists its namespaces, and that another does. Either may be nil.
func (e *edit) list(was, is *Quota) {
	change := func(namespace string, was, is *Quota) {
		listing, _ := e.listing.Get(namespace)
		set(e.listing, namespace, listing.replace(was, is))
		e.namespaces[namespace] = true
	}
	for _, namespace := range was.namespaces() {
		change(namespace, was, nil)
	}
	for _, namespace := range is.namespaces() {
		change(namespace, nil, is)
	}
}

// namespaces returns the namespaces that a quota lists, each once; none for nil.
func (q *Quota) namespaces() []string {
	if q == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(q.Namespaces)))
}

// judge finds the flaws of the new tree: those of the tree before, and what the changes make of them.
func (e *edit) judge(t *Tree) persistentmap.Map[[]*Flaw] {
	flaws := e.before.flaws.Edit()
	at := func(kind, name string, found []*Flaw) {
		if len(found) > 0 {
			flaws.Set(kind+name, found)
		} else if flaws.Len() > 0 {
			flaws.Delete(kind + name)
		}
	}
	for namespace := range e.namespaces {
		at(atNamespace, namespace, t.contested(namespace))
	}
	children, parents, moved := e.concerned(t)
	for name := range e.names {
		at(atName, name, t.doubles(name))
	}
	for name := range children {
		at(atChild, name, t.badParent(name))
	}
	for name := range parents {
		at(atParent, name, t.excessiveSum(name))
	}
	for _, gone := range e.before.cycles(moved) {
		at(atCycle, gone.first(), nil)
		moved = append(moved, gone.Quotas...)
	}
	for _, cycle := range t.cycles(moved) {
		at(atCycle, cycle.first(), []*Flaw{cycle})
	}
	return flaws.Done()
}

// concerned returns the quotas whose relation to their parent may have changed, those whose sum of min may have, and those
// that have another parent.
func (e *edit) concerned(t *Tree) (children, parents map[string]bool, moved []string) {
	children, parents = maps.Clone(e.names), map[string]bool{}
	for name := range e.names {
		was, is := e.before.quota(name), t.quota(name)
		if was == is {
			continue
		}
		appears := was == nil || is == nil
		if appears || was.IsParent != is.IsParent || was.TreeID != is.TreeID {
			for _, child := range t.Children(name) {
				children[child] = true
			}
		}
		if appears || was.Parent != is.Parent {
			moved = append(moved, name)
		}
		if appears || was.Parent != is.Parent || was.Exempt() != is.Exempt() || !sameText(was.Min, is.Min) {
			parents[name], parents[parentOf(was)], parents[parentOf(is)] = true, true, true
		}
	}
	return children, parents, moved
}

// sameText reports whether two lists have the same amounts in the same format.
func sameText(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y Amount) bool { return x.Format == y.Format && x.Cmp(y) == 0 })
}

// Moved returns the names of the quotas whose path differs from that in an earlier tree, or that only one of the two trees has, and the
// namespaces whose pods without a label may belong to another quota. Its cost grows with what has changed between the two.
func (t *Tree) Moved(before *Tree) (names, namespaces map[string]bool) {
	names, namespaces = map[string]bool{}, map[string]bool{}
	for name := range t.named.ChangedFrom(before.named) {
		was, is := before.quota(name), t.quota(name)
		if (was == nil) != (is == nil) || parentOf(was) != parentOf(is) {
			t.addBelow(names, name) // the same as in the tree before, but for quotas that have another parent themselves
		}
		if was.ownsNamespace() != is.ownsNamespace() {
			namespaces[name] = true
		}
	}
	for namespace := range t.listing.ChangedFrom(before.listing) {
		if was, is := before.HolderOf(namespace), t.HolderOf(namespace); (was == nil) != (is == nil) || was != nil && was.Name != is.Name {
			namespaces[namespace] = true
		}
	}
	return names, namespaces
}

// addBelow adds the names of a quota and its descendants.
func (t *Tree) addBelow(names map[string]bool, name string) {
	done := map[string]bool{}
	for level := []string{name}; len(level) > 0; level = level[1:] {
		if !done[level[0]] {
			done[level[0]], names[level[0]] = true, true
			level = append(level, t.Children(level[0])...)
		}
	}
}

// ownsNamespace reports whether the pods of a namespace belong to the quota because both have the same name.
func (q *Quota) ownsNamespace() bool { return q != nil && q.Name == q.Namespace }
