package cluster

import (
	"hash/maphash"
	"iter"
	"maps"
)

// table is an immutable map from keys to objects. A change returns a new table that shares all but one of its parts
// with the old one: changing one of 100,000 pods copies about 100 entries and 1024 pointers (about 30 µs). Readers need
// no lock, and a snapshot never changes. A lock around one large map would be as fast, but then two reads for one
// review could see two states, and a bad new state of the files could not be rejected before it is visible.
type table struct {
	parts *[parts]map[string]any
	size  int
}

const parts = 1024

var seed = maphash.MakeSeed()

func part(key string) int { return int(maphash.String(seed, key) % parts) }

// tableOf makes a table from a map, which it does not retain.
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

// with returns a table that also has an object under key.
func (t table) with(key string, object any) table {
	t, changed := t.copyFor(key)
	if _, known := changed[key]; !known {
		t.size++
	}
	changed[key] = object
	return t
}

// without returns a table without key.
func (t table) without(key string) table {
	if _, known := t.get(key); !known {
		return t
	}
	t, changed := t.copyFor(key)
	delete(changed, key)
	t.size--
	return t
}

// copyFor returns a copy of the table, and its part for key, which may be modified.
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

// all yields all keys and objects in no particular order.
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
