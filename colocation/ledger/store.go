package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// Annotation is where a quota object carries its record: the reservations of the tree below it.
const Annotation = api.AnnotationQuotaReservations

// Object is a quota object as it was at one resourceVersion, with the text of its record.
type Object struct {
	Quota   *quota.Quota
	Version string
	Record  string // of Annotation; empty without
	// ChildRequest is the text of api.AnnotationQuotaChildRequest; empty without.
	ChildRequest string
}

// Store keeps the records where all replicas see them: on the quota objects.
type Store interface {
	// Read gives the object as it is now, not as a cache has it. ErrGone: there is none.
	Read(ctx context.Context, quota types.NamespacedName) (Object, error)
	// Write replaces the object's record, and nothing else, unless the object changed since the version: ErrConflict. An empty record
	// removes the annotation. It gives the object as it is then. ErrGone: there is none. After another error, the write may have
	// happened or not.
	Write(ctx context.Context, quota types.NamespacedName, version, record string) (Object, error)
	// Pod gives a pod's resourceVersion as it is now, not as a cache has it. ErrGone: there is none.
	Pod(ctx context.Context, pod types.NamespacedName) (version string, err error)
}

// The errors of a Store that mean something.
var (
	ErrConflict = errors.New("the quota object has changed")
	ErrGone     = errors.New("there is no such object")
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
