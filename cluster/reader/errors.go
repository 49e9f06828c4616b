package reader

import (
	"errors"
	"fmt"
)

// ErrNotFound is the error for an object that does not exist.
var ErrNotFound = errors.New("does not exist")

// UnreadableError is the error for what may exist, and could not be read: nothing is known of it.
type UnreadableError struct {
	What      string // such as "endpointslices in namespace shop"
	Forbidden bool   // by RBAC
	Away      error  // why an API server has never answered, or nil
	Err       error
}

func (e *UnreadableError) Error() string {
	if e.Forbidden {
		return fmt.Sprintf("%s may not be read: %v", e.What, e.Err)
	}
	return fmt.Sprintf("%s could not be read: %v", e.What, e.Err)
}

// IsForbidden reports whether RBAC has kept something from being read.
func IsForbidden(err error) bool {
	unreadable, is := errors.AsType[*UnreadableError](err)
	return is && unreadable.Forbidden
}

func (e *UnreadableError) Unwrap() error { return e.Err }
