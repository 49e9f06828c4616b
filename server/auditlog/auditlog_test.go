package auditlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lost is a line that a disk cannot write.
const lost = "lost\n"

// disk is a writer that a test stops.
type disk struct {
	gate   chan struct{} // a write takes one, unless it is nil
	lines  []string
	closed bool
}

func (d *disk) Write(line []byte) (int, error) {
	if d.gate != nil {
		<-d.gate
	}
	if string(line) == lost {
		return 0, errors.New("no space left on device")
	}
	d.lines = append(d.lines, string(line))
	return len(line), nil
}

func (d *disk) Close() error { d.closed = true; return nil }

// TestNoWriterWaits: while the disk hangs, lines wait up to a bound, and then are dropped and counted. What waits is
// written when the disk works again.
func TestNoWriterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		l := start(d, false, func(error) {})
		for i := range maxQueued + 1001 {
			l.Write(fmt.Appendf(nil, "%d\n", i))
			if i == 0 {
				synctest.Wait() // the first is on its way to the disk
			}
		}
		if s := l.Stats(); s.Dropped != 1000 || len(l.queue) != maxQueued || s.Written != 0 {
			t.Errorf("%+v", s)
		}
		close(d.gate)
		if err := l.Close(t.Context()); err != nil || !d.closed || len(d.lines) != maxQueued+1 {
			t.Errorf("%v, closed %v, %d lines", err, d.closed, len(d.lines))
		}
		l.Write([]byte("late\n"))
	})
}

// TestWaitingLinesAreBounded: while the disk hangs, lines wait up to a number of bytes, whole ones, and short ones after
// them still fit. When the disk works again, there is room for as many as before.
func TestWaitingLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		l := start(d, false, func(error) {})
		const long, n = 100 << 10, 2315
		for range n {
			l.Write(make([]byte, long))
		}
		fits := maxWaiting / long
		if s := l.Stats(); s.Dropped != uint64(n-fits) {
			t.Errorf("%+v, want %d dropped", s, n-fits)
		}
		l.Write(make([]byte, maxWaiting-fits*long))
		if s := l.Stats(); s.Dropped != uint64(n-fits) {
			t.Errorf("a line that fits was dropped: %+v", s)
		}
		close(d.gate)
		synctest.Wait()
		l.Write(make([]byte, maxWaiting))
		synctest.Wait()
		if s := l.Stats(); s.Written != uint64(fits+2) || len(l.queue) != 0 || l.waiting.Load() != 0 {
			t.Errorf("%+v, %d bytes wait", s, l.waiting.Load())
		}
		for _, line := range d.lines {
			if len(line) != long && len(line) != maxWaiting-fits*long && len(line) != maxWaiting {
				t.Errorf("a line of %d bytes was cut", len(line))
			}
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseEnds: a disk that hangs does not keep the process.
func TestCloseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{gate: make(chan struct{})}
		l := start(d, false, func(error) {})
		l.Write([]byte("a\n"))
		synctest.Wait()
		l.Write([]byte("b\n"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); err == nil || !strings.Contains(err.Error(), "lines were not written") {
			t.Error(err)
		}
		close(d.gate)
	})
}

// TestDiskFull: each lost line is counted, and a series of errors is reported once, and its end.
func TestDiskFull(t *testing.T) {
	var reports []string
	l := start(&disk{}, false, func(err error) { reports = append(reports, fmt.Sprint(err)) })
	for _, line := range []string{"a", lost, lost, lost, "b", "c", lost} {
		l.Write([]byte(line))
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Written != 3 || s.Dropped != 4 || s.Errors != 4 {
		t.Errorf("%+v", s)
	}
	if got := strings.Join(reports, ";"); got != "no space left on device;<nil>;no space left on device" {
		t.Errorf("%q", got)
	}
}

// small is a disk with room for so many bytes. It writes of a line what fits.
type small struct {
	text []byte
	room int
}

func (s *small) Write(line []byte) (n int, err error) {
	n = min(len(line), s.room)
	s.text, s.room = append(s.text, line[:n]...), s.room-n
	if n < len(line) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func (s *small) Close() error { return nil }

// TestTornLine: a line of which a full disk has taken a part is ended before the next one is written, and what is counted
// as written is there to read.
func TestTornLine(t *testing.T) {
	const line = "abcdef\n"
	for room := range 3 * len(line) {
		for more := range 3 * len(line) {
			disk := &small{room: room}
			l := &Log{to: disk}
			write := func(times int) {
				for range times {
					_ = l.append([]byte(line))
				}
			}
			write(3)
			disk.room += more
			write(3)
			disk.room += 100
			write(1)
			whole := uint64(0)
			for text := range strings.Lines(string(disk.text)) {
				if text == line {
					whole++
				} else if !strings.HasPrefix(line, strings.TrimSuffix(text, "\n")) {
					t.Errorf("room for %d, then %d more: the line %q", room, more, text)
				}
			}
			if s := l.Stats(); s.Written != whole || s.Dropped != 7-whole {
				t.Errorf("room for %d, then %d more: %+v, but %d whole lines in %q", room, more, s, whole, disk.text)
			}
			if !strings.HasSuffix(string(disk.text), line) {
				t.Errorf("room for %d, then %d more: the last line is lost: %q", room, more, disk.text)
			}
		}
	}
}

// TestTornFile: the last process was killed while it wrote.
func TestTornFile(t *testing.T) {
	for before, want := range map[string]string{"": "new\n", "old\n": "old\nnew\n", "old\n{\"ti": "old\n{\"ti\nnew\n"} {
		file := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(Options{File: file, MaxSizeMiB: 1}, nil, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		l.Write([]byte("new\n"))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%v %q, want %q", err, got, want)
		}
	}
}

// TestRotation: the file stays below its size, and only as many older ones are kept as wanted.
func TestRotation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{File: file, MaxSizeMiB: 1, Keep: 2}, nil, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 64<<10-1) + "\n")
	for range 70 { // 4.4 MiB
		l.Write(line)
		for len(l.queue) > 0 {
			time.Sleep(time.Millisecond) // a rotated file is named by its time
		}
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(files) == 3 { // older ones are removed in the background
			break
		}
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
	if len(files) != 3 {
		t.Errorf("files: %v", files)
	}
}

// TestOpenFails where no line could be written, with the way out.
func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]string{
		filepath.Join(dir, "none", "audit.log"): "create the directory " + filepath.Join(dir, "none"),
		dir:                                     "is a directory",
		"/dev/null":                             "is no regular file, and cannot be rotated; - is standard output",
		"/proc/self/comm":                       "cannot be rotated: make the directory /proc/self writable", // even root creates no file there
	} {
		if _, err := os.Stat(filepath.Dir(file)); err != nil && strings.HasPrefix(file, "/proc") {
			continue // not Linux
		}
		if _, err := Open(Options{File: file, MaxSizeMiB: 1}, nil, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--audit-log") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
