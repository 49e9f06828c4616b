package command

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// output is a standard output that keeps its first error, and writes nothing after it, so that callers need not check every write.
type output struct {
	io.Writer
	lock sync.Mutex
	err  error
}

func (o *output) Write(p []byte) (n int, err error) {
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

// bare returns the writer below an output, for a command that goes on after a failed write.
func bare(w io.Writer) io.Writer {
	if out, is := w.(*output); is {
		return out.Writer
	}
	return w
}

// withWriteError returns err, joined with the write error if there was one; a denial is replaced by it.
func (o *output) withWriteError(err error) error {
	o.lock.Lock()
	defer o.lock.Unlock()
	switch {
	case o.err == nil:
		return err
	case err == nil || errors.Is(err, errDenied) || errors.Is(err, o.err):
		return o.err
	}
	return errors.Join(err, o.err)
}
