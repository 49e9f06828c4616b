package document

import "sync"

// memory is where a document's handles are allocated, and what Try needs. It is pooled: a review needs some hundred
// small objects, which cost more to allocate and to collect than to clear.
type memory struct {
	slabs []*slab
	used  int // handles of the last slab
	lists arena[*Value]
	texts arena[byte] // the JSON of strings and small objects that are set
	undo  []saved
}

// arena is where short slices are allocated.
type arena[T any] []T

// arenaLength is the length of a new arena, and the maximum length of an arena that is kept.
const arenaLength = 512

// empty returns an empty slice with room for n values.
func (a *arena[T]) empty(n int) []T {
	start := len(*a)
	if start+n > cap(*a) {
		start, *a = 0, make([]T, 0, max(n, arenaLength))
	}
	*a = (*a)[:start+n]
	return (*a)[start : start : start+n]
}

// release makes the arena empty.
func (a *arena[T]) release() {
	clear(*a)
	if *a = (*a)[:0]; cap(*a) > arenaLength {
		*a = nil
	}
}

// slab holds several handles in one allocation.
type slab [32]Value

// saved is the state of a handle before an edit.
type saved struct {
	at  *Value
	was Value
}

var (
	memories = sync.Pool{New: func() any { return new(memory) }}
	// slabs pools the slabs of released documents, zeroed.
	slabs = sync.Pool{New: func() any { return new(slab) }}
)

// value returns a new handle.
func (m *memory) value() *Value {
	if len(m.slabs) == 0 || m.used == len(slab{}) {
		m.slabs, m.used = append(m.slabs, slabs.Get().(*slab)), 0
	}
	m.used++
	return &m.slabs[len(m.slabs)-1][m.used-1]
}

// takeBack restores the handles that were edited, the last edit first.
func (m *memory) takeBack() {
	for i := len(m.undo) - 1; i >= 0; i-- {
		s := &m.undo[i]
		*s.at = s.was
		s.at.dirty = true
	}
}

func (m *memory) forgetUndo() {
	clear(m.undo)
	m.undo = m.undo[:0]
}

// release returns the memory to the pool.
func (m *memory) release() {
	for i, s := range m.slabs {
		if i < len(m.slabs)-1 {
			*s = slab{}
		} else {
			clear(s[:m.used])
		}
		slabs.Put(s)
		m.slabs[i] = nil
	}
	m.slabs = m.slabs[:0]
	m.lists.release()
	m.texts.release()
	if cap(m.undo) <= arenaLength && cap(m.slabs) <= arenaLength {
		memories.Put(m)
	}
}
