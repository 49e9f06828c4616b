package cluster

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"usher.dev/usher/admit"
)

// Snapshot is the cluster at one moment. It never changes; what it gives must not be changed either. Ask one snapshot all questions that
// must agree with each other.
type Snapshot struct {
	*state
	all   bool     // whatever is kept may be asked about
	needs []string // otherwise: the collections that may be asked about
}

// state is all that is known at one moment.
type state struct {
	catalogue
	api       bool // watched: what is not there may only be late
	collected []collected
	changed   chan struct{} // closed when a newer state is in force
}

// collected is all about one collection.
type collected struct {
	synced   bool
	objects  table
	bad      map[string]error // of objects that do not decode; never changed in place
	compiled any
	problems []error // of compiling
}

// Changed returns a channel that is closed when a newer snapshot is in force. To wait for something, look for it in a snapshot, wait for that
// snapshot's channel, and look again in Now: then no change is missed.
func (s Snapshot) Changed() <-chan struct{} { return s.changed }

// ask returns what is known of a collection, or why there is no answer to a question about it: usher never guesses from an empty memory.
// Before the collection is synced the error wraps admit.ErrNotReady, and so becomes an HTTP 503 that asks to try again. The other errors
// are mistakes of ours.
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

// late is the answer about an object that a review is proof of, but that the watch has not brought yet.
func late(name, key string) error {
	return fmt.Errorf("cluster state: %s %s has not arrived yet: %w", name, key, admit.ErrNotReady)
}

// Reader answers the questions of a step: about the collections that it needs, and no others. The zero value is for steps that are listed
// and never run.
type Reader struct {
	cluster *Cluster
	needs   []string
}

// Reader returns a Reader for a step that needs the collections.
func (c *Cluster) Reader(needs []string) Reader { return Reader{c, needs} }

// Now returns the state as it is known now.
func (r Reader) Now() Snapshot { return Snapshot{state: r.cluster.latest(), needs: r.needs} }

// put takes up an object, and reports whether that changed anything. One that does not decode leaves what was there: a state that was right
// once is better than none.
func (s *state) put(k int, i *item) (changed bool) {
	state := &s.collected[k]
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

// same reports whether two states of an object keep the same. Texts that are equal decode to what is deeply equal, quantities too; those that
// only mean the same, as 1 and 1000m do, are rare, and to take them for a change costs no more than a change.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// mend forgets that an object did not decode.
func (state *collected) mend(key string) (changed bool) {
	if _, changed = state.bad[key]; changed {
		state.bad = maps.Clone(state.bad)
		delete(state.bad, key)
	}
	return changed
}

func (s *state) remove(k int, key string) (changed bool) {
	state := &s.collected[k]
	changed = state.mend(key)
	before := state.objects
	state.objects = before.without(key)
	return changed || state.objects != before
}

// replace takes up all objects of a collection, which is synced from then on. If they are what was there, the table stays, so that nothing is
// compiled anew.
func (s *state) replace(k int, items []*item) {
	state := &s.collected[k]
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

// compile brings up to date what follows from a collection.
func (s *state) compile(k int) {
	state, compile := &s.collected[k], s.rows[k].compile
	if compile == nil || !state.synced {
		return
	}
	compiled, problems := guard(compile, state.objects)
	if compiled != nil {
		state.compiled = compiled
	}
	state.problems = problems
}

// guard makes a problem of a panic: one strange object must not end the process again and again.
func guard(compile func(table) (any, []error), objects table) (compiled any, problems []error) {
	defer func() {
		if cause := recover(); cause != nil {
			compiled, problems = nil, []error{fmt.Errorf("panic: %v", cause)}
		}
	}()
	return compile(objects)
}

// problems gives what is wrong with objects, in the order of collections and keys.
func (s *state) problems() (all []error) {
	for k, r := range s.rows {
		state := &s.collected[k]
		for _, key := range slices.Sorted(maps.Keys(state.bad)) {
			all = append(all, fmt.Errorf("%s %s: %w", r.name, key, state.bad[key]))
		}
		for _, problem := range state.problems {
			all = append(all, fmt.Errorf("%s: %w", r.name, problem))
		}
	}
	return all
}
