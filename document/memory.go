package document

import "sync"

// memory is where a document's handles are allocated, and what Try needs. It is pooled: a review needs some hundred small
// objects, which cost more to allocate and to collect than to clear.
type memory struct {
	slabs []*slab
	used  int      // handles of the last slab
	lists []*Value // the lists of children: see list
	undo  []saved
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

// listsLength is the number of handles for whose lists a memory has room, and keeps it.
const listsLength = 512

// list returns an empty list with room for n handles.
func (m *memory) list(n int) []*Value {
	start := len(m.lists)
	if start+n > cap(m.lists) {
		start, m.lists = 0, make([]*Value, 0, max(n, listsLength))
	}
	m.lists = m.lists[:start+n]
	return m.lists[start : start : start+n]
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
		*s = slab{}
		slabs.Put(s)
		m.slabs[i] = nil
	}
	clear(m.lists)
	m.slabs, m.lists = m.slabs[:0], m.lists[:0]
	if cap(m.lists) <= listsLength && cap(m.undo) <= listsLength {
		memories.Put(m)
	}
}
