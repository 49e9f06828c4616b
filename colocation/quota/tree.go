package quota

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/internal/persistentmap"
)

// Tree is the set of all quotas at one moment. It is immutable, and independent of the order in which quotas were added:
// a tree that was changed by With equals a new one of the same quotas.
// The root quota is always part of it, even if no object exists for it.
type Tree struct {
	named    persistentmap.Map[rank]                // by name
	children persistentmap.Map[[]string]            // by parent, sorted; also for parents that do not exist
	listing  persistentmap.Map[rank]                // by namespace: the quotas whose annotations list it
	sums     persistentmap.Map[corev1.ResourceList] // by parent: what the min of its children adds up to
	flaws    persistentmap.Map[[]*Flaw]             // by site
}

// rank holds quotas that claim the same, by age: the first has it.
type rank struct {
	first  *Quota
	others []*Quota
}

// NewTree returns the tree of the given quotas. If two have the same name or list the same namespace, the older one
// wins.
func NewTree(quotas []*Quota) *Tree {
	quotas = slices.Clone(quotas)
	slices.SortFunc(quotas, func(a, b *Quota) int { return cmp.Or(cmp.Compare(a.Name, b.Name), byAge(a, b)) }) // so that lists grow at their ends
	e := (&Tree{}).edit()
	for _, q := range quotas {
		e.replace(q.Name, nil, q)
	}
	return e.done()
}

// byAge compares quotas by age, then by name.
func byAge(a, b *Quota) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Get returns the quota with a name.
func (t *Tree) Get(name string) (*Quota, bool) {
	named, ok := t.named.Get(name)
	return named.first, ok
}

// quota returns the quota with a name, or nil.
func (t *Tree) quota(name string) *Quota {
	named, _ := t.named.Get(name)
	return named.first
}

// Len returns the number of quotas.
func (t *Tree) Len() int { return t.named.Len() }

// Names returns all names, sorted.
func (t *Tree) Names() []string {
	names := make([]string, 0, t.Len())
	for name := range t.named.All() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Children returns the names of a quota's children, sorted.
func (t *Tree) Children(name string) []string {
	children, _ := t.children.Get(name)
	return children
}

// HolderOf returns the quota that lists a namespace in its annotation, or nil.
func (t *Tree) HolderOf(namespace string) *Quota {
	listing, _ := t.listing.Get(namespace)
	return listing.first
}

// Path returns the quota and its ancestors, from the quota up to the top, the last one before the root quota. It ends
// at a parent that does not exist. If it runs into a cycle, it ends with the alphabetically first name of the cycle, so
// that all quotas of one cycle have the same top.
func (t *Tree) Path(name string) []*Quota {
	var path []*Quota
	for q := t.quota(name); q != nil && q.Name != api.RootQuota; q = t.quota(q.Parent) {
		if n := len(path); n > 0 && path[n/2] == q { // tortoise and hare: cheap however long the chain
			return endAtFirst(append(path, q))
		}
		path = append(path, q)
	}
	return path
}

// Line returns the quotas of Path, the quota itself first: in a cycle, Path begins elsewhere.
func (t *Tree) Line(name string) []*Quota {
	path := t.Path(name)
	if at := slices.Index(path, t.quota(name)); at > 0 {
		return slices.Concat(path[at:at+1], path[:at], path[at+1:])
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
	switch own := t.quota(k.Namespace); {
	case k.Label != "" || labelOnly:
		b = Binding{Name: k.Label, Via: "label"}
	case own != nil && own.Namespace == k.Namespace && k.Namespace != "":
		b = Binding{Name: own.Name, Via: "namespace name"}
	default:
		if q := t.HolderOf(k.Namespace); q != nil {
			b = Binding{Name: q.Name, Via: "namespace annotation"}
		}
	}
	if !api.ReservedQuota(b.Name) {
		b.Quota = t.quota(b.Name)
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
	named, _ := t.named.Get(id.Name)
	for q := range named.all() {
		if q.Namespace == id.Namespace {
			return q
		}
	}
	return nil
}

// With returns the tree with some quotas added or replaced, or removed where the value is nil. It costs what the changed
// quotas and their relatives cost; the rest is shared.
func (t *Tree) With(changes map[types.NamespacedName]*Quota) *Tree {
	e := t.edit()
	for id, q := range changes {
		e.replace(id.Name, t.At(id), q)
	}
	return e.done()
}

// all yields the quotas, the first one first.
func (r rank) all() iter.Seq[*Quota] {
	return func(yield func(*Quota) bool) {
		if r.first == nil || !yield(r.first) {
			return
		}
		for _, q := range r.others {
			if !yield(q) {
				return
			}
		}
	}
}

// replace returns the rank with a quota in place of another. Either may be nil.
func (r rank) replace(was, is *Quota) rank {
	if len(r.others) == 0 && (r.first == was || r.first == nil) {
		return rank{first: is} // as nearly always
	}
	all := slices.DeleteFunc(slices.Collect(r.all()), func(q *Quota) bool { return q == was })
	if is != nil {
		at, _ := slices.BinarySearchFunc(all, is, byAge)
		all = slices.Insert(all, at, is)
	}
	return rank{all[0], all[1:]}
}
