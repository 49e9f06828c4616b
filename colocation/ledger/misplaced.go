package ledger

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// misplaced finds the reservations that are stored on another object than the top of their quota's tree: the quota was in
// another tree, or below another top. Only the records that may have some are looked at when the tree changes.
type misplaced struct {
	tree  *quota.Tree // that the rest is for; nil: none yet
	stale bool        // the rest must be found again even for the same tree
	// on holds them by the object that they are stored on, then by the name of the top that they belong to.
	on    map[types.NamespacedName]map[string]record
	below map[string]record             // the same of all objects, by the name of that top
	pods  map[types.NamespacedName]bool // the objects whose records had reservations when they were looked at last
	fresh map[types.NamespacedName]bool // the objects whose records have changed since then
	// seen is the newest Seen of all records, and needs what it was when quotas had moved last, or when reservations were not
	// misplaced any more: those that were dropped required no observation of who decides in the tree that the quota is in now.
	seen, needs string
}

func newMisplaced() misplaced {
	return misplaced{on: map[types.NamespacedName]map[string]record{}, pods: map[types.NamespacedName]bool{}, fresh: map[types.NamespacedName]bool{}}
}

// note records that the record of an object has changed. appears says that the object had none before, or has none now.
func (m *misplaced) note(key types.NamespacedName, appears bool) {
	m.fresh[key] = true
	m.stale = m.stale || appears || m.on[key] != nil
}

// noteSeen notes which observations the record of an object requires, from its text. Those newer than the object come from the
// manifest of another cluster.
func (m *misplaced) noteSeen(object Object) {
	rest, some := strings.CutPrefix(object.Record, `{"seen":"`) // first, if at all; records are not parsed for this
	if seen, _, _ := strings.Cut(rest, `"`); some && !older(object.Version, seen) {
		m.seen = newest(m.seen, seen)
	}
}

// moved requires of all trees the observations that the records of others require now.
func (m *misplaced) moved() { m.needs = m.seen }

// forget records that an object is gone.
func (m *misplaced) forget(key types.NamespacedName) {
	m.stale = m.stale || m.on[key] != nil
	m.clear(key)
	delete(m.fresh, key)
}

// clear forgets which reservations an object has.
func (m *misplaced) clear(key types.NamespacedName) {
	if m.on[key] != nil {
		m.moved()
	}
	delete(m.on, key)
	delete(m.pods, key)
}

// misplacedBelow returns the reservations for quotas below a top that are stored on other objects than this top, with the
// observations that decisions there require because of other records.
func (o *objects) misplacedBelow(tree *quota.Tree, top string) record {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := &o.misplaced
	if m.tree != tree || m.stale {
		again := m.doubtful(tree)
		m.tree, m.stale, m.fresh, m.below = tree, false, map[types.NamespacedName]bool{}, map[string]record{}
		for key := range again {
			o.findMisplaced(key)
		}
		for _, found := range m.on {
			for top, r := range found {
				m.below[top] = m.below[top].joined(r)
			}
		}
	}
	below := m.below[top]
	below.Seen = newest(below.Seen, m.needs)
	return below
}

// doubtful returns the objects whose records must be looked at again for a tree: those that changed, and if quotas have moved, all that
// had reservations.
func (m *misplaced) doubtful(tree *quota.Tree) map[types.NamespacedName]bool {
	again := maps.Clone(m.fresh)
	if m.tree == nil {
		m.moved() // quotas may have moved before the list
		return again
	}
	if moved, namespaces := tree.Moved(m.tree); len(moved)+len(namespaces) > 0 {
		m.moved() // the follower is called after the tree is there
		maps.Copy(again, m.pods)
	}
	return again
}

// findMisplaced records the reservations of an object that belong to another tree than the object's own.
func (o *objects) findMisplaced(key types.NamespacedName) {
	m := &o.misplaced
	m.clear(key)
	found, err := o.parse(o.known[key])
	if err != nil || len(found.Pods) == 0 {
		return
	}
	m.pods[key] = true
	tops := map[string]string{}
	for _, r := range found.Pods {
		name := r.quotaIn(m.tree)
		top, known := tops[name]
		if !known {
			if path := m.tree.Path(name); len(path) > 0 {
				top = path[len(path)-1].Name
			}
			tops[name] = top
		}
		if top == key.Name {
			continue
		}
		if m.on[key] == nil {
			m.on[key] = map[string]record{}
		}
		m.on[key][top] = m.on[key][top].joined(record{Seen: found.Seen, Tree: found.Tree, Pods: []reservation{r}})
	}
}

// joined returns the reservations of two records.
func (r record) joined(other record) record {
	return record{Seen: newest(r.Seen, other.Seen), Tree: newest(r.Tree, other.Tree), Pods: append(r.Pods, other.Pods...)}
}
