package cluster

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/persistentmap"
)

// Snapshot is the state of the cluster at one moment. It is immutable, and the objects that it returns must not be
// modified. Read everything that must be consistent from one snapshot.
type Snapshot struct {
	*state
	all   bool     // all collections that are kept may be read
	needs []string // otherwise: the collections that may be read
}

// state is everything that is known at one moment.
type state struct {
	catalogue
	api       bool // the cluster is watched: a missing object may just not have arrived yet
	missing   func(collection, key string)
	collected []collected
	changed   chan struct{} // closed when a newer state has been stored
}

// collected is the state of one collection.
type collected struct {
	synced   bool
	objects  persistentmap.Map[any]
	bad      map[string]error // errors of objects that do not decode, by key; never modified in place
	compiled any
	from     persistentmap.Map[any] // the objects that compiled was compiled from
	problems []error                // from compiling
}

// Changed returns a channel that is closed when a newer snapshot is available. To wait for a condition, check it on a
// snapshot, wait for that snapshot's channel, and check again on Now: this misses no change.
func (s Snapshot) Changed() <-chan struct{} { return s.changed }

// ask returns the state of a collection, or why it cannot be read: usher never decides on an empty state. Before the
// collection is synced, the error wraps admit.ErrNotReady, and becomes an HTTP 503 that asks for a retry. The other
// errors are programming errors.
func (s Snapshot) ask(name string) (*collected, error) {
	k, declared := s.index[name]
	switch {
	case !declared:
		return nil, fmt.Errorf("cluster state: no collection %s is declared", name)
	case !s.all && !slices.Contains(s.needs, name):
		return nil, fmt.Errorf("cluster state: the step that asks about %s does not declare that it needs them", name)
	case !s.wanted[k]:
		return nil, fmt.Errorf("cluster state: %s are not kept: no step that is served declares that it needs them", name)
	case !s.collected[k].synced:
		return nil, fmt.Errorf("cluster state: %s have not been listed yet: %w", name, admit.ErrNotReady)
	}
	return &s.collected[k], nil
}

// notArrived returns the error about an object whose existence a review implies, but which the watch has not delivered
// yet.
func notArrived(name, key string) error {
	return fmt.Errorf("cluster state: %s %s has not arrived yet: %w", name, key, admit.ErrNotReady)
}

// Reader gives a step access to the collections that it needs, and to no others. The zero value is for steps that are
// only listed, never run.
type Reader struct {
	cluster *Cluster
	needs   []string
}

// Reader returns a Reader for a step that needs the given collections.
func (c *Cluster) Reader(needs []string) Reader { return Reader{c, needs} }

// Now returns a snapshot of the current state.
func (r Reader) Now() Snapshot { return Snapshot{state: r.cluster.latest(), needs: r.needs} }

// put stores an object, and reports whether that changed anything. If the object does not decode, its last valid state
// is kept, which is better than none.
func (s *state) put(k int, i *item) (changed bool) {
	c := &s.collected[k]
	if i.err != nil {
		c.bad = maps.Clone(c.bad)
		if c.bad == nil {
			c.bad = map[string]error{}
		}
		c.bad[i.key] = i.err
		return true
	}
	changed = c.clearBad(i.key)
	if before, known := c.objects.Get(i.key); known && sameKept(before, i.kept) {
		return changed // most changes of a pod concern parts that are not kept
	}
	edit := c.objects.Edit()
	edit.Set(i.key, i.kept)
	c.objects = edit.Done()
	return true
}

// sameKept reports whether two states of an object are kept as equal values. Equal texts decode to deeply equal values,
// also for quantities. Equivalent but different texts, such as 1 and 1000m, are rare, and treating them as a change is
// harmless.
func sameKept(a, b any) bool { return reflect.DeepEqual(a, b) }

// clearBad removes the error of an object that did not decode, and reports whether there was one.
func (c *collected) clearBad(key string) (changed bool) {
	if _, changed = c.bad[key]; changed {
		c.bad = maps.Clone(c.bad)
		delete(c.bad, key)
	}
	return changed
}

func (s *state) remove(k int, key string) (changed bool) {
	c := &s.collected[k]
	changed = c.clearBad(key)
	edit := c.objects.Edit()
	edit.Delete(key)
	before := c.objects
	c.objects = edit.Done()
	return changed || c.objects != before
}

// replace stores all objects of a collection, which is synced from then on. If the objects are unchanged, the table
// stays the same, so that nothing is compiled again.
func (s *state) replace(k int, items iter.Seq[*item]) {
	c := &s.collected[k]
	objects, bad, changed := persistentmap.Map[any]{}.Edit(), map[string]error{}, false
	for i := range items {
		before, known := c.objects.Get(i.key)
		if i.err != nil {
			bad[i.key] = i.err
		}
		switch {
		case known && (i.err != nil || sameKept(before, i.kept)):
			objects.Set(i.key, before)
		case i.err == nil:
			objects.Set(i.key, i.kept)
			changed = true
		}
	}
	if changed || objects.Len() != c.objects.Len() {
		c.objects = objects.Done()
	}
	c.bad, c.synced = bad, true
}

// compile updates what is compiled from a collection.
func (s *state) compile(k int) {
	c, compile := &s.collected[k], s.rows[k].compile
	if compile == nil || !c.synced {
		return
	}
	compiled, problems := compileSafely(compile, c)
	if compiled != nil {
		c.compiled, c.from = compiled, c.objects
	}
	c.problems = problems
}

// compileSafely returns a panic as a problem: an unusual object must not crash the process repeatedly.
func compileSafely(compile func(*collected) (any, []error), c *collected) (compiled any, problems []error) {
	defer func() {
		if cause := recover(); cause != nil {
			compiled, problems = nil, []error{fmt.Errorf("panic: %v", cause)}
		}
	}()
	return compile(c)
}

// problems returns the problems of all objects, in the order of collections and keys.
func (s *state) problems() (all []error) {
	for k, r := range s.rows {
		c := &s.collected[k]
		for _, key := range slices.Sorted(maps.Keys(c.bad)) {
			all = append(all, fmt.Errorf("%s %s: %w", r.name, key, c.bad[key]))
		}
		for _, problem := range c.problems {
			all = append(all, fmt.Errorf("%s: %w", r.name, problem))
		}
	}
	return all
}
