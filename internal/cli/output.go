package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// Output is a standard output that keeps its first error, and writes nothing after it, so that callers need not check every write.
type Output struct {
	io.Writer
	lock sync.Mutex
	err  error
}

func (o *Output) Write(p []byte) (n int, err error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	if n, err = o.Writer.Write(p); err != nil {
		o.err = fmt.Errorf("standard output could not be written, so the answer is not complete: %w", err)
	}
	return n, o.err
}

// Bare returns the writer below an output, for a command that goes on after a failed write.
func Bare(w io.Writer) io.Writer {
	if out, is := w.(*Output); is {
		return out.Writer
	}
	return w
}

// WithWriteError returns err, joined with the write error if there was one; a denial is replaced by it.
func (o *Output) WithWriteError(err error) error {
	o.lock.Lock()
	defer o.lock.Unlock()
	switch {
	case o.err == nil:
		return err
	case err == nil || errors.Is(err, ErrDenied) || errors.Is(err, o.err):
		return o.err
	}
	return errors.Join(err, o.err)
}

// ErrDenied ends a command with exit code 1: it did its work, and the verdict is no, or a comparison finds a difference.
var ErrDenied = errors.New("denied")

// ExitCode returns the exit code for the error of a command. 0: done, or allowed; 1: denied; 2: an error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrDenied):
		return 1
	}
	return 2
}
