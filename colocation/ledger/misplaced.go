package ledger

import (
	"maps"

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
}

func newMisplaced() misplaced {
	return misplaced{on: map[types.NamespacedName]map[string]record{}, pods: map[types.NamespacedName]bool{}, fresh: map[types.NamespacedName]bool{}}
}

// note records that the record of an object has changed. appears says that the object had none before, or has none now.
func (m *misplaced) note(key types.NamespacedName, appears bool) {
	m.fresh[key] = true
	m.stale = m.stale || appears || m.on[key] != nil
}

// forget records that an object is gone.
func (m *misplaced) forget(key types.NamespacedName) {
	m.stale = m.stale || m.on[key] != nil
	delete(m.on, key)
	delete(m.pods, key)
	delete(m.fresh, key)
}

// misplacedBelow returns the reservations for quotas below a top that are stored on other objects than this top.
func (o *objects) misplacedBelow(tree *quota.Tree, top string) record {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := &o.misplaced; m.tree != tree || m.stale {
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
	return o.misplaced.below[top]
}

// doubtful returns the objects whose records must be looked at again for a tree: those that changed, and if quotas have moved, all that
// had reservations.
func (m *misplaced) doubtful(tree *quota.Tree) map[types.NamespacedName]bool {
	again := maps.Clone(m.fresh)
	if m.tree == nil {
		return again
	}
	if moved, _ := tree.Moved(m.tree); len(moved) > 0 {
		maps.Copy(again, m.pods)
	}
	return again
}

// findMisplaced records the reservations of an object that belong to another tree than the object's own.
func (o *objects) findMisplaced(key types.NamespacedName) {
	m := &o.misplaced
	delete(m.on, key)
	delete(m.pods, key)
	found, err := o.parse(o.known[key])
	if err != nil || len(found.Pods) == 0 {
		return
	}
	m.pods[key] = true
	tops := map[string]string{}
	for _, r := range found.Pods {
		top, known := tops[r.Quota]
		if !known {
			if path := m.tree.Path(r.Quota); len(path) > 0 {
				top = path[len(path)-1].Name
			}
			tops[r.Quota] = top
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
