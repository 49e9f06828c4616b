package poll

import (
	"context"
	"sync/atomic"
)

// Current is the content in force. Load returns it without a lock.
type Current[T any] struct {
	atomic.Pointer[T]
	first Sum
	read  func() (*T, Sum, error)
}

// Open reads a content that has to be good.
func Open[T any](read func() (*T, Sum, error)) (*Current[T], error) {
	content, sum, err := read()
	if err != nil {
		return nil, err
	}
	c := &Current[T]{first: sum, read: read}
	c.Store(content)
	return c, nil
}

// Watch reads again until ctx ends, once for each Current, and reports each new outcome: see Changes. After an error, the content
// in force stays.
func (c *Current[T]) Watch(ctx context.Context, times Times, report func(error)) {
	Changes(ctx, times, c.first, c.read, func(next *T, err error) {
		if err == nil {
			c.Store(next)
		}
		report(err)
	})
}
