package cluster

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"usher.dev/usher/admit"
)

// Snapshot is the cluster at one moment. It never changes; what it gives must not be changed either.
type Snapshot struct {
	api   bool // watched: what is not there may only be late
	kinds [kindCount]kindState
}

// kindState is all about one kind.
type kindState struct {
	wanted, synced bool
	objects        table
	bad            map[string]error // of objects that do not decode; never changed in place
	compiled       any
	problems       []error // of compiling
}

// ready tells why there is no answer to a question about a kind.
func (s *Snapshot) ready(k Kind) error {
	if !s.kinds[k].wanted {
		return fmt.Errorf("cluster state: %s are not kept: Options.Kinds does not want them", k)
	}
	if !s.kinds[k].synced {
		return fmt.Errorf("cluster state: %s have not been listed yet: %w", k, admit.ErrNotReady)
	}
	return nil
}

// find gives the object of a kind with a key. T must be what the kind's row keeps.
func find[T any](s *Snapshot, k Kind, key string) (object T, known bool, err error) {
	if err := s.ready(k); err != nil {
		return object, false, err
	}
	found, known := s.kinds[k].objects.get(key)
	if known {
		object = found.(T)
	}
	return object, known, nil
}

// sorted gives the objects of a kind, sorted by key. T must be what the kind's row keeps.
func sorted[T any](s *Snapshot, k Kind) ([]T, error) {
	if err := s.ready(k); err != nil {
		return nil, err
	}
	objects := maps.Collect(s.kinds[k].objects.all())
	list := make([]T, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		list = append(list, objects[key].(T))
	}
	return list, nil
}

// all gives the objects of a kind by key, in no order. T must be what the kind's row keeps.
func all[T any](s *Snapshot, k Kind) (iter.Seq2[string, T], error) {
	if err := s.ready(k); err != nil {
		return nil, err
	}
	return func(yield func(string, T) bool) {
		for key, object := range s.kinds[k].objects.all() {
			if !yield(key, object.(T)) {
				return
			}
		}
	}, nil
}

// put takes up an object, and tells whether that changed anything. One that does not decode leaves what was there: a state that was right
// once is better than none.
func (s *Snapshot) put(k Kind, i *item) (changed bool) {
	state := &s.kinds[k]
	if i.err != nil {
		state.bad = maps.Clone(state.bad)
		if state.bad == nil {
			state.bad = map[string]error{}
		}
		state.bad[i.key()] = i.err
		return true
	}
	changed = state.mend(i.key())
	if before, known := state.objects.get(i.key()); known && same(before, i.kept) {
		return changed // most changes of a pod are to what is not kept
	}
	state.objects = state.objects.with(i.key(), i.kept)
	return true
}

// same tells whether two states of an object keep the same. Texts that are equal decode to what is deeply equal, quantities too; those that
// only mean the same, as 1 and 1000m do, are rare, and to take them for a change costs no more than a change.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// mend forgets that an object did not decode.
func (state *kindState) mend(key string) (changed bool) {
	if _, changed = state.bad[key]; changed {
		state.bad = maps.Clone(state.bad)
		delete(state.bad, key)
	}
	return changed
}

func (s *Snapshot) remove(k Kind, key string) (changed bool) {
	state := &s.kinds[k]
	changed = state.mend(key)
	before := state.objects
	state.objects = before.without(key)
	return changed || state.objects != before
}

// replace takes up all objects of a kind, which is synced from then on. If they are what was there, the table stays, so that nothing is
// compiled anew.
func (s *Snapshot) replace(k Kind, items []*item) {
	state := &s.kinds[k]
	objects, bad, changed := make(map[string]any, len(items)), map[string]error{}, false
	for _, i := range items {
		before, known := state.objects.get(i.key())
		if i.err != nil {
			bad[i.key()] = i.err
		}
		switch {
		case known && (i.err != nil || same(before, i.kept)):
			objects[i.key()] = before
		case i.err == nil:
			objects[i.key()] = i.kept
			changed = true
		}
	}
	if changed || len(objects) != state.objects.size {
		state.objects = tableOf(objects)
	}
	state.bad, state.synced = bad, true
}

// compile brings up to date what follows from a kind.
func (s *Snapshot) compile(k Kind, compile Compiler) {
	state := &s.kinds[k]
	if compile == nil || !state.synced {
		return
	}
	compiled, problems := guard(compile)(s)
	if compiled != nil {
		state.compiled = compiled
	}
	state.problems = problems
}

// guard makes a problem of a panic: one strange object must not end the process again and again.
func guard(compile Compiler) Compiler {
	return func(s *Snapshot) (compiled any, problems []error) {
		defer func() {
			if cause := recover(); cause != nil {
				compiled, problems = nil, []error{fmt.Errorf("panic: %v", cause)}
			}
		}()
		return compile(s)
	}
}

func (c *Cluster) compiler(k Kind) Compiler {
	if wanted := c.options.Compile[k]; wanted != nil {
		return wanted
	}
	return rows[k].compile
}

// problems gives what is wrong with objects, in the order of kinds and keys.
func (s *Snapshot) problems() (all []error) {
	for k := range kindCount {
		for _, key := range slices.Sorted(maps.Keys(s.kinds[k].bad)) {
			all = append(all, fmt.Errorf("%s %s: %w", k, key, s.kinds[k].bad[key]))
		}
		for _, problem := range s.kinds[k].problems {
			all = append(all, fmt.Errorf("%s: %w", k, problem))
		}
	}
	return all
}
