// Package auditlog writes lines to a file that is rotated, or to standard output. Its writers never wait for the disk.
package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Options say where lines go, and how many files remain.
type Options struct {
	File       string // "-" is standard output
	MaxSizeMiB int    // the file is rotated before it gets larger
	Keep       int    // rotated files
	MaxAgeDays int    // of rotated files; 0: any
	Compress   bool   // rotated files with gzip
}

// At most maxQueued lines wait for the disk, and at most maxWaiting bytes of them. A line has some hundred bytes, but the
// names and groups of a user can make it a hundred times as long.
const maxQueued, maxWaiting = 8192, 8 << 20

// Log is an audit log.
type Log struct {
	queue   chan []byte
	done    chan struct{} // closed when the last line was written
	to      io.WriteCloser
	failed  func(error)
	torn    bool         // the last line lacks its end; only for run
	waiting atomic.Int64 // bytes of the lines that wait or are being written
	written atomic.Uint64
	dropped atomic.Uint64
	errors  atomic.Uint64
}

// Open opens an audit log. It fails if a line could not be written now, or the file not be rotated when it is full, so that
// a wrong path is noticed at the start.
// failed is called, on a goroutine of its own, for the first error of a series of failed writes, and with nil when one
// has succeeded again.
func Open(o Options, stdout io.Writer, failed func(error)) (*Log, error) {
	if o.File == "-" {
		return start(nopCloser{stdout}, false, failed), nil
	}
	torn, err := writable(o.File)
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	to := &lumberjack.Logger{Filename: o.File, MaxSize: o.MaxSizeMiB, MaxBackups: o.Keep, MaxAge: o.MaxAgeDays, Compress: o.Compress}
	return start(to, torn, failed), nil
}

// writable returns an error if a line cannot be appended to a file, and reports whether its last line lacks its end: a
// process that wrote it was killed.
func writable(name string) (torn bool, err error) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("%w: create the directory %s, or mount a volume there", err, filepath.Dir(name))
		}
		return false, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is no regular file, and cannot be rotated; - is standard output", name)
	}
	if err != nil {
		return false, err
	}
	last := []byte{'\n'}
	if info.Size() > 0 {
		_, err = file.ReadAt(last, info.Size()-1)
	}
	return last[0] != '\n', errors.Join(err, rotatable(name))
}

// rotatable returns an error if there cannot be another file beside a file.
func rotatable(name string) error {
	dir := filepath.Dir(name)
	beside, err := os.CreateTemp(dir, ".usher-audit-")
	if err != nil {
		return fmt.Errorf("%s cannot be rotated: make the directory %s writable, or mount a volume there: %w", name, dir, err)
	}
	_ = beside.Close()
	return os.Remove(beside.Name())
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func start(to io.WriteCloser, torn bool, failed func(error)) *Log {
	l := &Log{queue: make(chan []byte, maxQueued), done: make(chan struct{}), to: to, torn: torn, failed: failed}
	go l.run()
	return l
}

// Write queues a line, which ends with a line break and must not change afterwards. If the disk does not keep up, the
// line is dropped and counted: a review never waits for the audit log.
func (l *Log) Write(line []byte) {
	size := int64(cap(line)) // which is what it takes of the memory
	if l.waiting.Add(size) <= maxWaiting {
		select {
		case l.queue <- line:
			return
		default:
		}
	}
	l.waiting.Add(-size)
	l.dropped.Add(1)
}

// run writes the lines until a nil line.
func (l *Log) run() {
	defer close(l.done)
	failing := false
	for line := range l.queue {
		if line == nil {
			return
		}
		err := l.append(line)
		l.waiting.Add(-int64(cap(line)))
		if err != nil {
			l.errors.Add(1)
		}
		if failing != (err != nil) {
			failing = err != nil
			l.failed(err)
		}
	}
}

// append writes a line, and counts it as written if all of its text is. If the line before it lacks its end, because the
// disk was full, it ends that first.
func (l *Log) append(line []byte) error {
	if l.torn {
		if _, err := l.to.Write([]byte{'\n'}); err != nil {
			l.dropped.Add(1)
			return err
		}
		l.torn = false
	}
	n, err := l.to.Write(line)
	l.torn = n > 0 && n < len(line)
	if n >= len(line)-1 {
		l.written.Add(1)
	} else {
		l.dropped.Add(1)
	}
	return err
}

// Close writes the lines that wait, until ctx ends, and closes the file. Lines that are written later are dropped.
func (l *Log) Close(ctx context.Context) error {
	select {
	case l.queue <- nil:
	case <-ctx.Done():
	}
	select {
	case <-l.done:
		return l.to.Close()
	case <-ctx.Done():
		return fmt.Errorf("audit log: %d lines were not written: %w", len(l.queue), ctx.Err())
	}
}

// Stats counts the lines of an audit log.
type Stats struct {
	Written uint64
	Dropped uint64 // because the disk was too slow, or a write has failed
	Errors  uint64 // failed writes
}

// Stats returns what has been done so far.
func (l *Log) Stats() Stats {
	return Stats{l.written.Load(), l.dropped.Load(), l.errors.Load()}
}
