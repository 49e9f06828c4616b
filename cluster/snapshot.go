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

// put takes up an object. One that does not decode leaves what was there: a state that was right once is better than none.
func (s *Snapshot) put(k Kind, i *item) {
	state := &s.kinds[k]
	state.bad = maps.Clone(state.bad)
	if i.err != nil {
		if state.bad == nil {
			state.bad = map[string]error{}
		}
		state.bad[i.key()] = i.err
		return
	}
	delete(state.bad, i.key())
	if before, known := state.objects.get(i.key()); known && reflect.DeepEqual(before, i.kept) {
		return // most changes of a pod are to what is not kept
	}
	state.objects = state.objects.with(i.key(), i.kept)
}

func (s *Snapshot) remove(k Kind, key string) {
	state := &s.kinds[k]
	state.bad = maps.Clone(state.bad)
	delete(state.bad, key)
	state.objects = state.objects.without(key)
}

// replace takes up all objects of a kind, which is synced from then on.
func (s *Snapshot) replace(k Kind, items []*item) {
	state := &s.kinds[k]
	objects := make(map[string]any, len(items))
	bad := map[string]error{}
	for _, i := range items {
		switch before, known := state.objects.get(i.key()); {
		case i.err == nil:
			objects[i.key()] = i.kept
		case known:
			objects[i.key()] = before
			fallthrough
		default:
			bad[i.key()] = i.err
		}
	}
	state.objects, state.bad, state.synced = tableOf(objects), bad, true
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
