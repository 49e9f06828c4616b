package ledger

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory is a Store for one replica that is alone, and starts anew with its process. Versions are counted for each object.
type memory struct {
	mu      sync.Mutex
	records map[types.NamespacedName]Object
}

// Read gives the record. The quota beside it is for the reader to know.
func (m *memory) Read(_ context.Context, key types.NamespacedName) (Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[key], nil
}

// Write replaces the record.
func (m *memory) Write(_ context.Context, key types.NamespacedName, version, record string) (Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.records[key]
	if now.Version != version {
		return Object{}, ErrConflict
	}
	count, _ := strconv.Atoi(now.Version) // "" before the first
	now = Object{Version: strconv.Itoa(count + 1), Record: record}
	m.records[key] = now
	return now, nil
}

// Pod finds none: where pods are files, or sent by curl, whoever does not appear in time does not come.
func (m *memory) Pod(context.Context, types.NamespacedName) (string, error) {
	return "", ErrGone
}

func (m *memory) all() []Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.records))
}
