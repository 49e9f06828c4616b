package ledger

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/api"
	"usher.dev/usher/quota"
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
