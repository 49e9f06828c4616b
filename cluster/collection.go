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

	"usher.dev/usher/internal/persistentmap"
)

// Collection declares a set of objects that is kept, each as a T. To add a collection, declare it, list it in a
// catalogue (Options.Catalogue), and write the functions that read it. Two collections may keep different parts of the
// same objects.
type Collection[T any] struct {
	// Name identifies the collection in the Needs of steps, in logs and in metrics.
	Name string
	// Kind is the kind of the objects, and Resource its plural as in URLs, such as "pods".
	Kind       schema.GroupVersionKind
	Resource   string
	Namespaced bool
	// CRD is set if the kind is defined by a CRD, or is one that API servers may lack. If it is not served, there are no such objects.
	CRD bool
	// MetaOnly is set if only metadata is read, so that the API server need not send more.
	MetaOnly bool
	// Only is the name of the only object that is kept; zero means all objects.
	Only types.NamespacedName
	// FollowAnnotations lists annotations that are passed to followers but not kept, because they change all the time.
	// See Object.
	FollowAnnotations []string
	// Keep decodes an object and returns the T to keep; see the function Keep.
	Keep Decoder[T]
}

// Compiled is a collection from which a value is compiled after each change, for example an index.
type Compiled[T, C any] struct {
	Collection[T]
	// Compile compiles it. Problems are logged and reported, but the compiled value is used. If Compile returns an
	// error, which is also reported, or panics, the previously compiled value stays in use.
	Compile func(Objects[T]) (compiled C, problems []error, err error)
	// Update, if not nil, is called instead of Compile once a value has been compiled. It returns what Compile would, at
	// the cost of what has changed. changed yields each such object before and after; the zero T stands for none.
	Update func(before C, changed iter.Seq2[T, T]) (compiled C, problems []error)
}

// Declared is a *Collection or a *Compiled of any type.
type Declared interface{ row() row }

// row is a collection without its type parameters.
type row struct {
	name              string
	kind              schema.GroupVersionKind
	resource          string
	namespaced        bool
	crd               bool
	metaOnly          bool
	only              types.NamespacedName
	followAnnotations []string
	keep              func(r *row, o *received) (*item, error)
	// compile returns nil if the previously compiled value stays in use. It is nil for collections that are not
	// compiled.
	compile func(*collected) (compiled any, problems []error)
}

// decode decodes an object.
func (r *row) decode(raw []byte) (*item, error) {
	o := received{raw: raw}
	defer o.release()
	return r.keep(r, &o)
}

func (c *Collection[T]) row() row {
	return row{name: c.Name, kind: c.Kind, resource: c.Resource, namespaced: c.Namespaced, crd: c.CRD, metaOnly: c.MetaOnly,
		only: c.Only, followAnnotations: c.FollowAnnotations, keep: c.Keep.begin()}
}

func (c *Compiled[T, C]) row() row {
	r := c.Collection.row()
	r.compile = func(now *collected) (any, []error) {
		if before, some := now.compiled.(C); some && c.Update != nil {
			return c.Update(before, changedFrom(Objects[T]{now.from}, Objects[T]{now.objects}))
		}
		compiled, problems, err := c.Compile(Objects[T]{now.objects})
		if err != nil {
			return nil, append(problems, err)
		}
		return compiled, problems
	}
	return r
}

// Decoder decodes an object of a collection and returns the T to keep.
type Decoder[T any] struct {
	decode   func(r *row, raw []byte) (*item, error)
	shortcut func() Shortcut[T] // nil for none
}

// Keep makes a Decoder from a function that returns the T to keep of a decoded O. Everything else is dropped, in
// particular managedFields, which are often larger than all the rest. An object without a namespace is in the namespace
// that kubectl would use. The names of JSON members are case-sensitive, as in the API server.
func Keep[O, T any, P interface {
	*O
	metav1.Object
}](keep func(P) T) Decoder[T] {
	return Decoder[T]{decode: func(r *row, raw []byte) (*item, error) {
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

// Find returns the object with the given key: its name, preceded by the namespace and a slash if it has one. If there
// is none, known is false. Like every function that reads a collection, it returns an error if the collection has not
// been listed yet (the error wraps admit.ErrNotReady), if no step needs it, or if the snapshot is limited to other
// collections.
func (c *Collection[T]) Find(s Snapshot, key string) (object T, known bool, err error) {
	found, err := s.ask(c.Name)
	if err != nil {
		return object, false, err
	}
	object, known = Objects[T]{found.objects}.Get(key)
	return object, known, nil
}

// Expect is like Find for an object whose existence a review implies. In files it may be missing. In a watched cluster
// a missing one has only not arrived yet: the error wraps admit.ErrNotReady.
func (c *Collection[T]) Expect(s Snapshot, key string) (object T, known bool, err error) {
	object, known, err = c.Find(s, key)
	switch {
	case err != nil || known:
	case s.api:
		err = notArrived(c.Name, key)
	case s.missing != nil:
		s.missing(c.Name, key)
	}
	return object, known, err
}

// All returns all objects. It fails like Find.
func (c *Collection[T]) All(s Snapshot) (Objects[T], error) {
	found, err := s.ask(c.Name)
	if err != nil {
		return Objects[T]{}, err
	}
	return Objects[T]{found.objects}, nil
}

// Get returns the compiled value, or the zero value if nothing has been compiled yet. It fails like Find.
func (c *Compiled[T, C]) Get(s Snapshot) (compiled C, err error) {
	found, err := s.ask(c.Name)
	if err == nil && found.compiled != nil {
		compiled = found.compiled.(C)
	}
	return compiled, err
}

// Objects are the objects of a collection at one moment. They are immutable.
type Objects[T any] struct{ all persistentmap.Map[any] }

// Len returns the number of objects.
func (o Objects[T]) Len() int { return o.all.Len() }

// Get returns the object with the given key.
func (o Objects[T]) Get(key string) (object T, known bool) {
	found, known := o.all.Get(key)
	if known {
		object = found.(T)
	}
	return object, known
}

// Each yields the keys and objects in no particular order.
func (o Objects[T]) Each() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for key, object := range o.all.All() {
			if !yield(key, object.(T)) {
				return
			}
		}
	}
}

// Sorted returns the objects sorted by key, in a new slice.
func (o Objects[T]) Sorted() []T {
	objects := maps.Collect(o.all.All())
	list := make([]T, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		list = append(list, objects[key].(T))
	}
	return list
}

// changedFrom yields the objects that changed, before and after; the zero T if there is none.
func changedFrom[T any](before, after Objects[T]) iter.Seq2[T, T] {
	return func(yield func(was, is T) bool) {
		for key := range after.all.ChangedFrom(before.all) {
			was, had := before.Get(key)
			is, has := after.Get(key)
			if (had != has || !sameKept(was, is)) && !yield(was, is) {
				return
			}
		}
	}
}

// catalogue holds the declared collections, in order, and which of them are kept. It is immutable.
type catalogue struct {
	rows   []row
	index  map[string]int // by name
	wanted []bool
}

func newCatalogue(declared []Declared, needs []string) (catalogue, error) {
	c := catalogue{index: map[string]int{}}
	var unique []Declared
	for _, d := range declared {
		r := d.row()
		if first, twice := c.index[r.name]; twice && unique[first] == d {
			continue // two suites need the same
		} else if twice {
			return c, fmt.Errorf("cluster: the collection %s is declared twice", r.name)
		}
		c.index[r.name] = len(unique)
		unique, c.rows = append(unique, d), append(c.rows, r)
	}
	c.wanted = make([]bool, len(unique))
	for _, name := range needs {
		k, known := c.index[name]
		if !known {
			return c, fmt.Errorf("cluster: %s are needed, but no such collection is declared", name)
		}
		c.wanted[k] = true
	}
	return c, nil
}
