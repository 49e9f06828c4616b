package quota

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
)

// Tree is the set of all quotas at one moment. It is immutable and independent of the order in which quotas were added.
// The root quota is always part of it, even if no object exists for it.
type Tree struct {
	all        []*Quota // by age, including duplicates
	quotas     map[string]*Quota
	children   map[string][]string // by parent, sorted; also for parents that do not exist
	byBinding  map[string]*Quota   // by namespace: the quota whose annotation lists it
	duplicates []*Quota            // quotas whose name another quota has
	contested  []contested
	flaws      func() []*Flaw // computed once, on demand
}

// contested is a namespace that several quotas list.
type contested struct {
	namespace    string
	holds, wants *Quota
}

// NewTree returns the tree of the given quotas. If two have the same name or list the same namespace, the older one
// wins.
func NewTree(quotas []*Quota) *Tree {
	quotas = slices.Clone(quotas)
	slices.SortFunc(quotas, byAge)
	return newTree(quotas)
}

// newTree returns the tree of quotas that are sorted by age.
func newTree(quotas []*Quota) *Tree {
	t := &Tree{all: quotas, quotas: make(map[string]*Quota, len(quotas)), children: map[string][]string{}, byBinding: map[string]*Quota{}}
	t.flaws = sync.OnceValue(t.findFlaws)
	for _, q := range quotas {
		if _, taken := t.quotas[q.Name]; taken {
			t.duplicates = append(t.duplicates, q)
			continue
		}
		t.quotas[q.Name] = q
		if q.Parent != "" {
			t.children[q.Parent] = append(t.children[q.Parent], q.Name)
		}
		for _, namespace := range q.Namespaces {
			if holds, taken := t.byBinding[namespace]; !taken {
				t.byBinding[namespace] = q
			} else if holds != q {
				t.contested = append(t.contested, contested{namespace, holds, q})
			}
		}
	}
	for _, names := range t.children {
		slices.Sort(names)
	}
	return t
}

// byAge compares quotas by age, then by name.
func byAge(a, b *Quota) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Get returns the quota with a name.
func (t *Tree) Get(name string) (*Quota, bool) {
	q, ok := t.quotas[name]
	return q, ok
}

// Len returns the number of quotas.
func (t *Tree) Len() int { return len(t.quotas) }

// Names returns all names, sorted.
func (t *Tree) Names() []string {
	names := make([]string, 0, len(t.quotas))
	for name := range t.quotas {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Children returns the names of a quota's children, sorted.
func (t *Tree) Children(name string) []string { return t.children[name] }

// HolderOf returns the quota that lists a namespace in its annotation, or nil.
func (t *Tree) HolderOf(namespace string) *Quota { return t.byBinding[namespace] }

// Path returns the quota and its ancestors, from the quota up to the top, the last one before the root quota. It ends
// at a parent that does not exist. If it runs into a cycle, it ends with the alphabetically first name of the cycle, so
// that all quotas of one cycle have the same top.
func (t *Tree) Path(name string) []*Quota {
	var path []*Quota
	for q := t.quotas[name]; q != nil && q.Name != api.RootQuota; q = t.quotas[q.Parent] {
		if n := len(path); n > 0 && path[n/2] == q { // tortoise and hare: cheap however long the chain
			return endAtFirst(append(path, q))
		}
		path = append(path, q)
	}
	return path
}

// endAtFirst cuts a path that goes round a cycle, perhaps more than once, where the cycle closes, and rotates the cycle
// so that it ends with its first name.
func endAtFirst(path []*Quota) []*Quota {
	first := make(map[*Quota]int, len(path))
	from := 0
	for i, q := range path {
		if at, again := first[q]; again {
			path, from = path[:i], at
			break
		}
		first[q] = i
	}
	return rotated(path, from)
}

// rotated rotates the cycle of a path, path[from:], so that it ends with its first name.
func rotated(path []*Quota, from int) []*Quota {
	cycle := path[from:]
	first := slices.Index(cycle, slices.MinFunc(cycle, func(a, b *Quota) int { return cmp.Compare(a.Name, b.Name) }))
	return slices.Concat(path[:from], cycle[first+1:], cycle[:first+1])
}

// Binding is the quota that a pod belongs to, and the reason.
type Binding struct {
	Name string
	// Via is the reason, for display: "label", "namespace annotation", "namespace name" or "default".
	Via string
	// Quota is nil if the quota does not exist, or is one of the reserved ones, which limit nothing.
	Quota *Quota
}

// Bind returns the quota of a pod: the quota that its label names; else the quota with the name of the pod's namespace,
// if it is in that namespace; else the quota that lists the namespace; else the default quota. With labelOnly (gate
// DisableDefaultQuota) only the label counts, even if it is empty.
func (t *Tree) Bind(k BindingKey, labelOnly bool) Binding {
	b := Binding{Name: api.DefaultQuota, Via: "default"}
	switch own := t.quotas[k.Namespace]; {
	case k.Label != "" || labelOnly:
		b = Binding{Name: k.Label, Via: "label"}
	case own != nil && own.Namespace == k.Namespace && k.Namespace != "":
		b = Binding{Name: own.Name, Via: "namespace name"}
	default:
		if q := t.byBinding[k.Namespace]; q != nil {
			b = Binding{Name: q.Name, Via: "namespace annotation"}
		}
	}
	if !api.ReservedQuota(b.Name) {
		b.Quota = t.quotas[b.Name]
	}
	return b
}

// Unknown reports whether the pod's label names a quota that does not exist. The other ways of binding lead to existing
// quotas.
func (b Binding) Unknown() bool {
	return b.Quota == nil && b.Name != "" && !api.ReservedQuota(b.Name)
}

// At returns the quota with a name in a namespace, even if another quota counts under that name; nil if there is none.
func (t *Tree) At(id types.NamespacedName) *Quota {
	q := t.quotas[id.Name]
	if q == nil || q.Namespace == id.Namespace {
		return q
	}
	for _, double := range t.duplicates {
		if double.Identity() == id {
			return double
		}
	}
	return nil
}

// With returns the tree with some quotas added or replaced, or removed where the value is nil.
func (t *Tree) With(changes map[types.NamespacedName]*Quota) *Tree {
	list := make([]*Quota, 0, len(t.all)+len(changes))
	for _, q := range t.all {
		if _, changed := changes[q.Identity()]; !changed {
			list = append(list, q)
		}
	}
	for _, q := range changes {
		if q != nil {
			at, _ := slices.BinarySearchFunc(list, q, byAge)
			list = slices.Insert(list, at, q)
		}
	}
	return newTree(list)
}
