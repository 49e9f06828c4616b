// Package auditlog writes lines to a file that is rotated, or to standard output.
package auditlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"

	"usher.dev/usher/internal/lines"
)

// Options say where lines go, and how many files remain.
type Options struct {
	File       string // "-" is standard output
	MaxSizeMiB int    // the file is rotated before it gets larger
	Keep       int    // rotated files
	MaxAgeDays int    // of rotated files; 0: any
	Compress   bool   // rotated files with gzip
}

// Open opens an audit log. It fails if a line could not be written now, or the file not be rotated when it is full, so that
// a wrong path is noticed at the start.
// failed is called, on a goroutine of its own, for the first error of a series of failed writes, and with nil when one
// has succeeded again.
func Open(o Options, stdout io.Writer, failed func(error)) (*lines.Writer, error) {
	if o.File == "-" {
		return lines.New(stdout, false, failed), nil
	}
	torn, err := writable(o.File)
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	to := &file{Logger: lumberjack.Logger{Filename: o.File, MaxSize: o.MaxSizeMiB, MaxBackups: o.Keep, MaxAge: o.MaxAgeDays, Compress: o.Compress}}
	return lines.New(to, torn, failed), nil
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

// file is a file that is rotated. When it was moved, deleted or replaced, the next lines begin a new one at its name.
type file struct {
	lumberjack.Logger
	at os.FileInfo // the file at the name before the last write
}

// Write writes whole lines.
func (f *file) Write(lines []byte) (int, error) {
	at, err := os.Stat(f.Filename)
	if err != nil || !os.SameFile(f.at, at) {
		_ = f.Close() // so that it is opened again
	}
	f.at = at
	return f.Logger.Write(lines)
}
