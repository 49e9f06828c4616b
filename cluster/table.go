package cluster

import (
	"hash/maphash"
	"iter"
	"maps"
)

// table is an immutable map from keys to objects. A change gives a new table that shares all but one of its parts with the old
// one, so that a change to one of 100,000 pods copies some 100 entries and 1024 pointers (some 30 µs), and readers need no lock:
// a snapshot never changes under them. A lock around one large map would be as fast, but then two answers given to one review
// could belong to two states, and a bad new state of the files could not be left before it is in force.
type table struct {
	parts *[parts]map[string]any
	size  int
}

const parts = 1024

var seed = maphash.MakeSeed()

func part(key string) int { return int(maphash.String(seed, key) % parts) }

// tableOf makes a table of a map, which it does not keep.
func tableOf(objects map[string]any) table {
	t := table{parts: new([parts]map[string]any), size: len(objects)}
	for key, object := range objects {
		p := &t.parts[part(key)]
		if *p == nil {
			*p = make(map[string]any, 1+len(objects)/parts)
		}
		(*p)[key] = object
	}
	return t
}

func (t table) get(key string) (any, bool) {
	if t.parts == nil {
		return nil, false
	}
	object, ok := t.parts[part(key)][key]
	return object, ok
}

// with gives the table in which key means object.
func (t table) with(key string, object any) table {
	t, changed := t.copyFor(key)
	if _, known := changed[key]; !known {
		t.size++
	}
	changed[key] = object
	return t
}

// without gives the table that does not have key.
func (t table) without(key string) table {
	if _, known := t.get(key); !known {
		return t
	}
	t, changed := t.copyFor(key)
	delete(changed, key)
	t.size--
	return t
}

// copyFor gives a table whose part for key may be changed.
func (t table) copyFor(key string) (table, map[string]any) {
	var copied [parts]map[string]any
	if t.parts != nil {
		copied = *t.parts
	}
	p := part(key)
	if copied[p] = maps.Clone(copied[p]); copied[p] == nil {
		copied[p] = map[string]any{}
	}
	return table{parts: &copied, size: t.size}, copied[p]
}

// all gives every key and object, in no order.
func (t table) all() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		if t.parts == nil {
			return
		}
		for _, p := range t.parts {
			for key, object := range p {
				if !yield(key, object) {
					return
				}
			}
		}
	}
}
