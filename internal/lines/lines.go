// Package lines writes the lines of a log, many at once while there are many.
package lines

import (
	"io"
	"sync"
	"time"
)

// Pause is the maximum time for which a line waits to be written. A process that is killed loses these lines.
const Pause = 10 * time.Millisecond

// most is the maximum number of bytes of lines that are written together. Linux does not mix writes up to this size to a
// pipe with those of others, such as an audit log that goes to the same one.
const most = 4 << 10

// Writer passes lines on. A line after a pause is written at once. Those that follow wait for each other: until the pause
// is over, or they fill a write. All methods may be called concurrently.
type Writer struct {
	to io.Writer

	mu      sync.Mutex
	waiting []byte
	timer   *time.Timer // runs for a pause after a write
	running bool
}

// New returns a Writer of lines to a file.
func New(to io.Writer) *Writer {
	w := &Writer{to: to, waiting: make([]byte, 0, most)}
	w.timer = time.AfterFunc(time.Hour, w.paused)
	w.timer.Stop()
	return w
}

// Write writes a line, or keeps a copy of it. An error is that of this line, or of lines that waited.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		w.start()
		return w.to.Write(line)
	}
	if len(w.waiting)+len(line) > most {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	if len(line) > most {
		return w.to.Write(line)
	}
	w.waiting = append(w.waiting, line...)
	return len(line), nil
}

// Flush writes the lines that wait.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// paused ends the pause. If lines have waited, they are written, and the next pause begins.
func (w *Writer) paused() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running = false; len(w.waiting) > 0 {
		_ = w.flush()
		w.start()
	}
}

// start starts a pause. The caller holds the lock, here and below.
func (w *Writer) start() {
	w.running = true
	w.timer.Reset(Pause)
}

func (w *Writer) flush() error {
	if len(w.waiting) == 0 {
		return nil
	}
	_, err := w.to.Write(w.waiting)
	w.waiting = w.waiting[:0]
	return err
}
