package replay

import (
	"container/list"
	"encoding/json"

	"usher.dev/usher/usherctl/explain"
)

// The objects that are remembered, at most: for updates and deletions, whose events do not have the object as it was.
const (
	maxObjects = 20_000
	maxBytes   = 128 << 20
)

// memory has the objects that were stored last, as far as an audit log has them.
type memory struct {
	places map[place]*list.Element
	last   *list.List // of remembered, the latest first
	bytes  int
}

type place struct{ group, version, resource, namespace, name string }

type remembered struct {
	place
	json.RawMessage
}

func newMemory() *memory { return &memory{places: map[place]*list.Element{}, last: list.New()} }

// before returns the object as it was before an event, if it is remembered.
func (m *memory) before(e *explain.Event) json.RawMessage {
	ref := e.ObjectRef
	if at := m.places[place{ref.APIGroup, ref.APIVersion, ref.Resource, ref.Namespace, ref.Name}]; at != nil {
		return at.Value.(remembered).RawMessage
	}
	return nil
}

// remember keeps what an event stored, and forgets what was stored longest ago.
func (m *memory) remember(e *explain.Event) {
	ref, is := e.ObjectRef, headOf(e.ResponseObject)
	if is.ResourceVersion == "" || is.Name == "" || is.Kind == "Scale" || e.DryRun() || e.ResponseStatus.Code >= 400 {
		return
	}
	at := place{ref.APIGroup, ref.APIVersion, ref.Resource, ref.Namespace, is.Name}
	m.forget(m.places[at])
	m.places[at] = m.last.PushFront(remembered{at, e.ResponseObject})
	m.bytes += len(e.ResponseObject)
	for m.last.Len() > maxObjects || m.bytes > maxBytes {
		m.forget(m.last.Back())
	}
}

func (m *memory) forget(at *list.Element) {
	if at == nil {
		return
	}
	was := m.last.Remove(at).(remembered)
	m.bytes -= len(was.RawMessage)
	delete(m.places, was.place)
}
