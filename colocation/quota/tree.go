package quota

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
)

// Tree is all quotas at one moment. It never changes, and it is the same whatever the order in which its quotas were learned.
// The root quota is there whether an object stands for it or not.
type Tree struct {
	all        []*Quota // by age, the doubles too
	quotas     map[string]*Quota
	children   map[string][]string // of a name, sorted; also of parents that do not exist
	byBinding  map[string]*Quota   // of a namespace: the quota whose annotation lists it
	duplicates []*Quota            // whose name another has
	contested  []contested
	flaws      func() []*Flaw // found once, when somebody asks
}

// contested is a namespace that more than one quota lists.
type contested struct {
	namespace    string
	holds, wants *Quota
}

// NewTree makes the tree of some quotas. Where two have the same name, or list the same namespace, the older counts.
func NewTree(quotas []*Quota) *Tree {
	quotas = slices.Clone(quotas)
	slices.SortFunc(quotas, byAge)
	return newTree(quotas)
}

// newTree makes the tree of quotas that are sorted by age.
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

// byAge sorts quotas by age, then by name.
func byAge(a, b *Quota) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Get gives the quota of a name.
func (t *Tree) Get(name string) (*Quota, bool) {
	q, ok := t.quotas[name]
	return q, ok
}

// Len is the number of quotas.
func (t *Tree) Len() int { return len(t.quotas) }

// Names are all names, sorted.
func (t *Tree) Names() []string {
	names := make([]string, 0, len(t.quotas))
	for name := range t.quotas {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Children are the names of a quota's children, sorted.
func (t *Tree) Children(name string) []string { return t.children[name] }

// HolderOf returns the quota to which the pods of a namespace belong by annotation, or nil.
func (t *Tree) HolderOf(namespace string) *Quota { return t.byBinding[namespace] }

// Path is the quota and its ancestors, from the quota up to the top: the last one before the root quota. A parent that does not exist
// ends it; so does a quota that stands in it already, and then the top is the first name of the cycle, so that every quota of
// one cycle has the same top.
func (t *Tree) Path(name string) []*Quota {
	var path []*Quota
	for q := t.quotas[name]; q != nil && q.Name != api.RootQuota; q = t.quotas[q.Parent] {
		if n := len(path); n > 0 && path[n/2] == q { // the hare meets the tortoise: this costs little, however long a chain somebody made
			return endAtFirst(append(path, q))
		}
		path = append(path, q)
	}
	return path
}

// endAtFirst cuts a path that goes round a cycle, perhaps more than once, where the cycle closes, and turns the cycle so that it ends
// with its first name.
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

// rotated is a path whose cycle, which begins at from, ends with its first name.
func rotated(path []*Quota, from int) []*Quota {
	cycle := path[from:]
	first := slices.Index(cycle, slices.MinFunc(cycle, func(a, b *Quota) int { return cmp.Compare(a.Name, b.Name) }))
	return slices.Concat(path[:from], cycle[first+1:], cycle[:first+1])
}

// Binding is the quota that a pod belongs to, and by what.
type Binding struct {
	Name string
	// Via says by what, for people: "label", "namespace annotation", "namespace name", "default".
	Via string
	// Quota is nil if there is no such quota, or it is one of the reserved ones, which limit nothing.
	Quota *Quota
}

// Bind gives the quota that a pod belongs to: that of its label; else the quota that has the name of the pod's namespace and stands in it;
// else the one that lists the namespace; else the default quota. With labelOnly (gate DisableDefaultQuota) a label counts even if it
// is empty, and nothing else does.
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

// Unknown reports whether the pod's label names a quota that does not exist. The other ways lead to quotas that do.
func (b Binding) Unknown() bool {
	return b.Quota == nil && b.Name != "" && !api.ReservedQuota(b.Name)
}

// At gives the quota of a name in a namespace, which may not be the one that counts under that name; nil if there is none.
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

// With is the tree with some quotas replaced or added, or taken out where nil stands.
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
