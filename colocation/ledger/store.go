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

// Annotation is the annotation of a quota object that holds the record: the reservations of the tree below it.
const Annotation = api.AnnotationQuotaReservations

// Object is a quota object at one resourceVersion, with the text of its record.
type Object struct {
	Quota   *quota.Quota
	Version string
	Record  string // the value of Annotation; empty if not set
	// ChildRequest is the value of api.AnnotationQuotaChildRequest; empty if not set.
	ChildRequest string
}

// Store holds the records where all replicas find them: on the quota objects.
type Store interface {
	// Read returns the current object, not a cached one, or ErrGone.
	Read(ctx context.Context, quota types.NamespacedName) (Object, error)
	// Write replaces the record of an object and changes nothing else. It returns ErrConflict if the object is no
	// longer at the given version, and ErrGone if it does not exist. An empty record removes the annotation. Write
	// returns the object after the write. After any other error the write may or may not have happened.
	Write(ctx context.Context, quota types.NamespacedName, version, record string) (Object, error)
	// Pod returns the current resourceVersion of a pod, not a cached one, or ErrGone.
	Pod(ctx context.Context, pod types.NamespacedName) (version string, err error)
	// Pods returns the current resourceVersion of all pods, not a cached one: of a list of them.
	Pods(ctx context.Context) (version string, err error)
}

// ErrConflict and ErrGone are the errors of a Store with a meaning of their own.
var (
	ErrConflict = errors.New("the quota object has changed")
	ErrGone     = errors.New("there is no such object")
)

// memStore is a Store for a single replica. It is lost with the process. Versions are counted per object.
type memStore struct {
	mu      sync.Mutex
	records map[types.NamespacedName]Object
}

// Read implements Store. It leaves Object.Quota nil.
func (m *memStore) Read(_ context.Context, key types.NamespacedName) (Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[key], nil
}

func (m *memStore) Write(_ context.Context, key types.NamespacedName, version, record string) (Object, error) {
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

// Pod implements Store and finds none: where pods come from files or curl, a pod that has not appeared in time will not
// come.
func (m *memStore) Pod(context.Context, types.NamespacedName) (string, error) {
	return "", ErrGone
}

// Pods implements Store. There are no grants in memory.
func (m *memStore) Pods(context.Context) (string, error) { return "", ErrGone }

func (m *memStore) all() []Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.records))
}
