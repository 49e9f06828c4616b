// Package persistentmap has a map that is copied on write: readers need no lock, and what they hold never changes.
package persistentmap

import (
	"hash/maphash"
	"iter"
	"maps"
)

// Map is an immutable map from strings; the zero value is empty. A changed map shares all but a few of its parts with the
// one before: changing one of 100,000 entries copies about 100 entries and 64 pointers. A lock around one large map would
// be as fast, but then two reads for one purpose could see two states.
//
// Two maps are equal (==) only if no entry was set or deleted between them.
type Map[V any] struct {
	groups *[width]*group[V]
	size   int
}

// A map has width groups of width parts.
const width = 32

type (
	group[V any] [width]*part[V]
	part[V any]  struct{ entries map[string]V }
)

var hashSeed = maphash.MakeSeed()

// place returns the group and the part of a key.
func place(key string) (i, j int) {
	hash := maphash.String(hashSeed, key)
	return int(hash % width), int(hash / width % width)
}

// Len returns the number of entries.
func (m Map[V]) Len() int { return m.size }

// Get returns the value of a key.
func (m Map[V]) Get(key string) (value V, ok bool) {
	i, j := place(key)
	value, ok = m.group(i).part(j).all()[key]
	return value, ok
}

// All yields all keys and values in no particular order.
func (m Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for i := range width {
			for j := range width {
				for key, value := range m.group(i).part(j).all() {
					if !yield(key, value) {
						return
					}
				}
			}
		}
	}
}

// ChangedFrom yields the keys that may have another value than in an earlier map, each once and in no particular order.
// From a map to one that was edited from it they are few; between others, they are all keys of both.
func (m Map[V]) ChangedFrom(before Map[V]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range width {
			was, is := before.group(i), m.group(i)
			if was == is {
				continue
			}
			for j := range width {
				if was.part(j) != is.part(j) && !eitherHas(was.part(j).all(), is.part(j).all(), yield) {
					return
				}
			}
		}
	}
}

// eitherHas yields the keys of two maps, each once.
func eitherHas[V any](was, is map[string]V, yield func(string) bool) bool {
	for key := range was {
		if !yield(key) {
			return false
		}
	}
	for key := range is {
		if _, twice := was[key]; !twice && !yield(key) {
			return false
		}
	}
	return true
}

func (m Map[V]) group(i int) *group[V] {
	if m.groups == nil {
		return nil
	}
	return m.groups[i]
}

func (g *group[V]) part(j int) *part[V] {
	if g == nil {
		return nil
	}
	return g[j]
}

func (p *part[V]) all() map[string]V {
	if p == nil {
		return nil
	}
	return p.entries
}

// Edit is a Map that is being changed, by one goroutine. Its methods see each change at once.
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
	entries := e.own(place(key))
	if _, known := entries[key]; !known {
		e.size++
	}
	entries[key] = value
}

// Delete deletes a key.
func (e *Edit[V]) Delete(key string) {
	if _, known := e.Get(key); known {
		delete(e.own(place(key)), key)
		e.size--
	}
}

// own returns a part that only this Edit has.
func (e *Edit[V]) own(i, j int) map[string]V {
	if e.groups == nil || e.groups == e.before.groups {
		e.groups = copyOf(e.groups)
	}
	if e.groups[i] == nil || e.groups[i] == e.before.group(i) {
		e.groups[i] = copyOf(e.groups[i])
	}
	p := &e.groups[i][j]
	if *p == nil {
		*p = &part[V]{map[string]V{}}
	} else if *p == e.before.group(i).part(j) {
		*p = &part[V]{maps.Clone((*p).entries)}
	}
	return (*p).entries
}

// copyOf returns a copy; of nil, something empty.
func copyOf[T any](from *T) *T {
	copied := new(T)
	if from != nil {
		*copied = *from
	}
	return copied
}
