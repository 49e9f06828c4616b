// Package lines writes the lines of a log. Its callers never wait for a disk, or for the reader of a pipe.
package lines

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Pause is the time between the writes of lines that follow one another. A process that is killed loses those that wait.
const Pause = 10 * time.Millisecond

// MaxWaiting is the maximum number of bytes of lines that wait. A line has some hundred bytes, but the texts of a review can
// make it a hundred times as long.
const MaxWaiting = 4 << 20

// most is the maximum number of bytes of lines that are written together. Linux does not mix writes up to this size to a
// pipe with those of others, such as an audit log that goes to the same one.
const most = 4 << 10

// Writer writes lines on a goroutine of its own: a line after a pause at once, and those that follow when the next pause is
// over, many in a write. All methods may be called concurrently.
type Writer struct {
	to            io.Writer
	failed        func(error)
	failing, torn bool          // the last write failed; the last line lacks its end; only for run
	done          chan struct{} // closed when the last line was written

	mu     sync.Mutex
	wake   chan struct{} // has something while lines wait; closed at the end
	closed bool
	blocks [][]byte // the lines that wait
	held   int      // bytes of the blocks that wait or are being written
	spare  [][]byte // blocks for later lines

	written, dropped, errors atomic.Uint64
}

// maxSpare is the maximum number of blocks whose memory is kept.
const maxSpare = 16

// New returns a Writer to a file, whose last line may be torn: it lacks its end, because the process that wrote it was killed.
// failed is called for the first error of a series of failed writes, and with nil when one has succeeded again.
func New(to io.Writer, torn bool, failed func(error)) *Writer {
	w := &Writer{to: to, torn: torn, failed: failed, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go w.run()
	return w
}

// Write keeps a copy of one or more whole lines until they are written. If the file does not keep up, they are dropped and
// counted, which is no error.
func (w *Writer) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.keep(lines) {
		w.dropped.Add(count(lines))
		return len(lines), nil
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return len(lines), nil
}

// keep reports whether there is room for lines. The caller holds the lock.
func (w *Writer) keep(lines []byte) bool {
	if w.closed {
		return false
	}
	last := len(w.blocks) - 1
	if last < 0 || len(w.blocks[last])+len(lines) > most {
		size := max(most, len(lines))
		if w.held+size > MaxWaiting {
			return false
		}
		w.held += size
		w.blocks, last = append(w.blocks, w.block(size)), last+1
	}
	w.blocks[last] = append(w.blocks[last], lines...)
	return true
}

// block returns an empty block. The caller holds the lock.
func (w *Writer) block(size int) []byte {
	if last := len(w.spare) - 1; last >= 0 && size == most {
		block := w.spare[last]
		w.spare = w.spare[:last]
		return block
	}
	return make([]byte, 0, size)
}

func (w *Writer) run() {
	defer close(w.done)
	for range w.wake {
		w.writeWaiting()
		time.Sleep(Pause)
	}
	w.writeWaiting()
}

// writeWaiting writes the lines that wait now.
func (w *Writer) writeWaiting() {
	w.mu.Lock()
	blocks := w.blocks
	w.blocks = nil
	w.mu.Unlock()
	for _, block := range blocks {
		w.report(w.append(block))
		w.release(block)
	}
}

func (w *Writer) release(block []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held -= cap(block)
	if cap(block) == most && len(w.spare) < maxSpare {
		w.spare = append(w.spare, block[:0])
	}
}

// append writes lines, and counts those as written of which all text is. If the line before them lacks its end, because the
// disk was full, it ends that first.
func (w *Writer) append(lines []byte) error {
	all, written := count(lines), uint64(0)
	defer func() {
		w.written.Add(written)
		w.dropped.Add(all - written)
	}()
	if w.torn {
		if _, err := w.to.Write([]byte{'\n'}); err != nil {
			return err
		}
		w.torn = false
	}
	n, err := w.to.Write(lines)
	if n > 0 {
		written, w.torn = count(lines[:n]), lines[n-1] != '\n'
	}
	if w.torn && n < len(lines) && lines[n] == '\n' {
		written++
	}
	return err
}

// report counts an error, and reports the first one of a series and its end.
func (w *Writer) report(err error) {
	if err != nil {
		w.errors.Add(1)
	}
	if w.failing != (err != nil) {
		w.failing = err != nil
		w.failed(err)
	}
}

// Close writes the lines that wait, until ctx ends. Later ones are dropped.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.wake)
	}
	w.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Errorf("up to %d bytes of it were not written: %w", w.held, ctx.Err())
}

// Stats counts lines.
type Stats struct {
	Written uint64
	Dropped uint64 // because the disk or the reader was too slow, or a write has failed
	Errors  uint64 // failed writes
}

// Stats returns what has been done so far.
func (w *Writer) Stats() Stats {
	return Stats{w.written.Load(), w.dropped.Load(), w.errors.Load()}
}

// count returns the number of lines.
func count(lines []byte) uint64 { return uint64(bytes.Count(lines, []byte{'\n'})) }
