package cluster

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// Collection declares objects that are kept of a cluster, each as a T. A new collection is one such declaration, named in a catalogue
// (Options.Catalogue), and the questions that are asked about it. Two collections may keep different things of the same objects.
type Collection[T any] struct {
	// Name is how steps name the collection in their Needs, and how logs and metrics print it.
	Name string
	// Kind is what manifests and the API server say that the objects are, and Resource its plural in a URL, such as "pods".
	Kind       schema.GroupVersionKind
	Resource   string
	Namespaced bool
	// CRD says that the kind is defined by a CRD, which may be missing: then there are no such objects.
	CRD bool
	// MetaOnly says that nothing but metadata is read, so that the API server need not send more.
	MetaOnly bool
	// Only is the one object that is wanted; empty: all.
	Only types.NamespacedName
	// Tell are annotations that are not kept, because they change all the time, but told to followers. See Object.
	Tell []string
	// Keep reads an object and keeps a T of it: see Keep.
	Keep Decoder[T]
}

// Compiled is a collection of which something is made after each change, for example an index.
type Compiled[T, C any] struct {
	Collection[T]
	// Compile makes it. Problems are logged and shown, and what was made counts all the same. After an error, which is shown too, or a
	// panic, what was compiled before stays.
	Compile func(Objects[T]) (compiled C, problems []error, err error)
}

// Declared is a *Collection or a *Compiled, whatever its types.
type Declared interface{ row() row }

// row is what the engine knows of a collection.
type row struct {
	name       string
	kind       schema.GroupVersionKind
	resource   string
	namespaced bool
	crd        bool
	metaOnly   bool
	only       types.NamespacedName
	tell       []string
	keep       func(r *row, raw []byte) (*item, error)
	// compile gives nil for what was compiled if that before stays; nil for collections of which nothing is made.
	compile func(table) (compiled any, problems []error)
}

// decode reads an object.
func (r *row) decode(raw []byte) (*item, error) { return r.keep(r, raw) }

func (c *Collection[T]) row() row {
	return row{name: c.Name, kind: c.Kind, resource: c.Resource, namespaced: c.Namespaced, crd: c.CRD, metaOnly: c.MetaOnly,
		only: c.Only, tell: c.Tell, keep: c.Keep.decode}
}

func (c *Compiled[T, C]) row() row {
	r := c.Collection.row()
	r.compile = func(objects table) (any, []error) {
		compiled, problems, err := c.Compile(Objects[T]{objects})
		if err != nil {
			return nil, append(problems, err)
		}
		return compiled, problems
	}
	return r
}

// Decoder reads an object of a collection and keeps a T of it.
type Decoder[T any] struct {
	decode func(r *row, raw []byte) (*item, error)
}

// Keep makes a Decoder of a function that takes what is kept out of a decoded O. It is where everything else is left behind: in
// particular managedFields, which are often larger than all the rest. An object that says no namespace is where kubectl would put it. The
// names of JSON members are case-sensitive, as they are for the API server.
func Keep[O, T any, P interface {
	*O
	metav1.Object
}](keep func(P) T) Decoder[T] {
	return Decoder[T]{func(r *row, raw []byte) (*item, error) {
		object := P(new(O))
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
			return r.unreadable(raw, err)
		}
		i, err := r.itemOf(object)
		if err == nil {
			i.kept = keep(object)
		}
		return i, err
	}}
}

// Find returns the object with a key: its name, after the namespace and a slash if it has one. One that is not there is not known. Like
// every question about a collection, it has no answer, but an error, before the collection was listed (the error wraps admit.ErrNotReady),
// if no step needs it, or if the snapshot is limited to others.
func (c *Collection[T]) Find(s Snapshot, key string) (object T, known bool, err error) {
	found, err := s.ask(c.Name)
	if err != nil {
		return object, false, err
	}
	object, known = Objects[T]{found.objects}.Get(key)
	return object, known, nil
}

// Expect is Find for an object that a review is proof of. In files, one that is not there is not known. A watched one must be there, so
// that it only is late: the error wraps admit.ErrNotReady.
func (c *Collection[T]) Expect(s Snapshot, key string) (object T, known bool, err error) {
	object, known, err = c.Find(s, key)
	if err == nil && !known && s.api {
		err = late(c.Name, key)
	}
	return object, known, err
}

// All returns all objects. The error is Find's.
func (c *Collection[T]) All(s Snapshot) (Objects[T], error) {
	found, err := s.ask(c.Name)
	if err != nil {
		return Objects[T]{}, err
	}
	return Objects[T]{found.objects}, nil
}

// Get returns what was compiled, or the zero value if nothing was compiled yet. The error is Find's.
func (c *Compiled[T, C]) Get(s Snapshot) (compiled C, err error) {
	found, err := s.ask(c.Name)
	if err == nil && found.compiled != nil {
		compiled = found.compiled.(C)
	}
	return compiled, err
}

// Objects are the objects of a collection at one moment. They never change.
type Objects[T any] struct{ table table }

// Len is how many there are.
func (o Objects[T]) Len() int { return o.table.size }

// Get returns the object with a key.
func (o Objects[T]) Get(key string) (object T, known bool) {
	found, known := o.table.get(key)
	if known {
		object = found.(T)
	}
	return object, known
}

// Each yields the objects by key, in no order.
func (o Objects[T]) Each() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for key, object := range o.table.all() {
			if !yield(key, object.(T)) {
				return
			}
		}
	}
}

// Sorted returns the objects, sorted by key, in a new list.
func (o Objects[T]) Sorted() []T {
	objects := maps.Collect(o.table.all())
	list := make([]T, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		list = append(list, objects[key].(T))
	}
	return list
}

// catalogue is what is declared, in its order, and which of it is wanted. It never changes.
type catalogue struct {
	rows   []row
	index  map[string]int // by name
	wanted []bool
}

func newCatalogue(declared []Declared, needs []string) (catalogue, error) {
	c := catalogue{index: map[string]int{}, wanted: make([]bool, len(declared))}
	for k, d := range declared {
		r := d.row()
		if _, twice := c.index[r.name]; twice {
			return c, fmt.Errorf("cluster: the collection %s is declared twice", r.name)
		}
		c.rows, c.index[r.name] = append(c.rows, r), k
	}
	for _, name := range needs {
		k, known := c.index[name]
		if !known {
			return c, fmt.Errorf("cluster: %s are needed, but no such collection is declared", name)
		}
		c.wanted[k] = true
	}
	return c, nil
}
