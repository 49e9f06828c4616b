// Package cow has a map that is copied on write: readers need no lock, and what they hold never changes.
package cow

import (
	"hash/maphash"
	"iter"
	"maps"
)

// Map is an immutable map from strings; the zero value is empty. A changed map shares all but some of its parts with the
// one before: changing one of 100,000 entries copies about 100 entries and 1024 pointers (about 30 µs). A lock around one
// large map would be as fast, but then two reads for one purpose could see two states.
//
// Two maps are equal (==) only if no entry was set or deleted between them.
type Map[V any] struct {
	parts *[parts]*part[V]
	size  int
}

const parts = 1024

type part[V any] struct{ entries map[string]V }

var hashSeed = maphash.MakeSeed()

func partOf(key string) int { return int(maphash.String(hashSeed, key) % parts) }

// Of makes a Map from a map, which it does not retain.
func Of[V any](all map[string]V) Map[V] {
	e := Map[V]{}.Edit()
	for key, value := range all {
		e.Set(key, value)
	}
	return e.Done()
}

// Len returns the number of entries.
func (m Map[V]) Len() int { return m.size }

// Get returns the value of a key.
func (m Map[V]) Get(key string) (value V, ok bool) {
	if m.parts == nil {
		return value, false
	}
	value, ok = m.parts[partOf(key)].all()[key]
	return value, ok
}

// All yields all keys and values in no particular order.
func (m Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if m.parts == nil {
			return
		}
		for _, p := range m.parts {
			for key, value := range p.all() {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// ChangedFrom yields the keys that may have another value than in an earlier map, each once and in no particular order.
// From a map to one that was edited from it they are few; between others, they are all keys of both.
func (m Map[V]) ChangedFrom(before Map[V]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range parts {
			was, is := before.part(i), m.part(i)
			if was == is {
				continue
			}
			for key := range was.all() {
				if !yield(key) {
					return
				}
			}
			for key := range is.all() {
				if _, twice := was.all()[key]; !twice && !yield(key) {
					return
				}
			}
		}
	}
}

func (m Map[V]) part(i int) *part[V] {
	if m.parts == nil {
		return nil
	}
	return m.parts[i]
}

func (p *part[V]) all() map[string]V {
	if p == nil {
		return nil
	}
	return p.entries
}

// Edit is a Map that is being changed, by one goroutine. Entries that are set are in it at once.
type Edit[V any] struct {
	Map[V]
	before Map[V]
}

// Edit returns an Edit that begins with the entries of the map.
func (m Map[V]) Edit() *Edit[V] { return &Edit[V]{m, m} }

// Done returns the map with the changes. The Edit must not be used any more.
func (e *Edit[V]) Done() Map[V] { return e.Map }

// Set sets the value of a key.
func (e *Edit[V]) Set(key string, value V) {
	entries := e.own(partOf(key))
	if _, known := entries[key]; !known {
		e.size++
	}
	entries[key] = value
}

// Delete deletes a key.
func (e *Edit[V]) Delete(key string) {
	if _, known := e.Get(key); known {
		delete(e.own(partOf(key)), key)
		e.size--
	}
}

// own returns a part that only this Edit has.
func (e *Edit[V]) own(i int) map[string]V {
	switch {
	case e.parts == nil:
		e.parts = new([parts]*part[V])
	case e.parts == e.before.parts:
		copied := *e.parts
		e.parts = &copied
	}
	if p := e.parts[i]; p == nil {
		e.parts[i] = &part[V]{map[string]V{}}
	} else if p == e.before.part(i) {
		e.parts[i] = &part[V]{maps.Clone(p.entries)}
	}
	return e.parts[i].entries
}
