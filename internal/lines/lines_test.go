package lines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lost is a line that a file cannot write.
const lost = "lost\n"

// file records the writes that it gets.
type file struct {
	gate   chan struct{} // a write takes one, unless it is nil
	mu     sync.Mutex
	writes []string
}

func (f *file) Write(p []byte) (int, error) {
	if f.gate != nil {
		<-f.gate
	}
	if string(p) == lost {
		return 0, errors.New("no space left on device")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, string(p))
	return len(p), nil
}

// wrote returns the writes so far, and forgets them.
func (f *file) wrote() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := strings.Join(f.writes, "|")
	f.writes = nil
	return all
}

// opened returns a Writer to a file, and a function that writes lines, and reports an error.
func opened(t *testing.T, f *file) (*Writer, func(lines ...string)) {
	w := New(f, false, func(error) {})
	return w, func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
				t.Errorf("%d of %d bytes: %v", n, len(line), err)
			}
		}
	}
}

func closed(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPause: a line after a pause is written at once, those that follow are when the pause is over, in one write; at the end
// all are, and later ones are dropped.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &file{}
		w, write := opened(t, to)
		step := func(wait time.Duration, want string, lines ...string) {
			t.Helper()
			for _, line := range lines {
				write(line)
			}
			time.Sleep(wait)
			synctest.Wait()
			if got := to.wrote(); got != want {
				t.Errorf("after %v: %q, want %q", lines, got, want)
			}
		}
		step(0, "a\n", "a\n")
		step(Pause/2, "", "b\n", "c\n")
		step(Pause, "b\nc\nd\n", "d\n")
		step(0, "", "e\n")    // the pause after d
		step(10*Pause, "e\n") // and the one after e without a line
		step(Pause/2, "f\n", "f\n")
		write("g\n")
		closed(t, w)
		closed(t, w)
		step(10*Pause, "g\n", "h\n")
		if got := w.Stats(); got != (Stats{Written: 7, Dropped: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestMost: a write has whole lines, and no more than most bytes unless one line has. What waits is a copy.
func TestMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &file{}
		w, write := opened(t, to)
		third, long := strings.Repeat("x", most/3-1)+"\n", strings.Repeat("y", 2*most)+"\n"
		write("a\n")
		synctest.Wait()
		reused := []byte("b\n")
		_, _ = w.Write(reused)
		reused[0] = 'z'
		write(third, third, third, long, "c\n")
		closed(t, w)
		if got := to.wrote(); got != strings.Join([]string{"a\n", "b\n" + third + third, third, long, "c\n"}, "|") {
			t.Errorf("%.100q", got)
		}
	})
}

// TestNoWriterWaits: while the file hangs, lines wait up to a number of bytes, whole ones, and then are dropped and counted. What
// waits is written, in order, when the file works again, and then there is room for as many as before.
func TestNoWriterWaits(t *testing.T) {
	for _, size := range []int{200, most/2 + 1, 100 << 10, 999_000} {
		synctest.Test(t, func(t *testing.T) {
			to := &file{gate: make(chan struct{})}
			w, write := opened(t, to)
			line := func(i int) string { return fmt.Sprintf("%-*d\n", size-1, i) }
			fits, next, inBlock := MaxWaiting/max(size, most)*max(1, most/size), 0, uint64(most/size) // the first block may be written with one line
			fill := func() {
				for range fits + 20 {
					write(line(next))
					next++
				}
				if s := w.Stats(); s.Dropped < 20 || s.Dropped > 20+inBlock || w.held > MaxWaiting {
					t.Errorf("lines of %d bytes: %+v, %d bytes are held", size, s, w.held)
				}
			}
			fill()
			close(to.gate)
			time.Sleep(2 * Pause)
			synctest.Wait()
			if s := w.Stats(); s.Written+s.Dropped != uint64(next) || w.held != 0 {
				t.Errorf("lines of %d bytes: %+v, %d bytes are held", size, s, w.held)
			}
			before := w.Stats()
			w.dropped.Store(0)
			to.gate = make(chan struct{})
			fill()
			close(to.gate)
			closed(t, w)
			last := -1
			for text := range strings.Lines(strings.ReplaceAll(to.wrote(), "|", "")) {
				i := 0
				if n, _ := fmt.Sscanf(text, "%d", &i); n != 1 || len(text) != size || i <= last {
					t.Fatalf("%.30q after %d, of %d bytes", text, last, len(text))
				}
				last = i
			}
			if s := w.Stats(); s.Written+s.Dropped+before.Dropped != uint64(next) {
				t.Errorf("lines of %d bytes: %+v", size, s)
			}
		})
	}
}

// TestCloseEnds: a file that hangs does not keep the process.
func TestCloseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &file{gate: make(chan struct{})}
		w, write := opened(t, to)
		write("a\n")
		synctest.Wait()
		write("b\n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Close(ctx); err == nil || !strings.Contains(err.Error(), "were not written") {
			t.Error(err)
		}
		close(to.gate)
		closed(t, w)
	})
}

// TestDiskFull: each lost line is counted, and a series of errors is reported once, and its end.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []string
		w := New(&file{}, false, func(err error) { reports = append(reports, fmt.Sprint(err)) })
		for _, line := range []string{"a\n", lost, lost, lost, "b\n", "c\n", lost} {
			_, _ = w.Write([]byte(line))
			time.Sleep(2 * Pause)
		}
		closed(t, w)
		if s := w.Stats(); s != (Stats{Written: 3, Dropped: 4, Errors: 4}) {
			t.Errorf("%+v", s)
		}
		if got := strings.Join(reports, ";"); got != "no space left on device;<nil>;no space left on device" {
			t.Errorf("%q", got)
		}
	})
}

// small is a disk with room for so many bytes. It writes of a text what fits.
type small struct {
	text []byte
	room int
}

func (s *small) Write(text []byte) (n int, err error) {
	n = min(len(text), s.room)
	s.text, s.room = append(s.text, text[:n]...), s.room-n
	if n < len(text) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// TestTornLine: a line of which a full disk has taken a part is ended before the next one is written, and what is counted
// as written is there to read.
func TestTornLine(t *testing.T) {
	const line = "abcdef\n"
	for _, together := range []int{1, 3} {
		for room := range 3 * len(line) {
			for more := range 3 * len(line) {
				disk := &small{room: room}
				w := &Writer{to: disk}
				write := func(times int) {
					for range times / together {
						_ = w.append([]byte(strings.Repeat(line, together)))
					}
				}
				write(3)
				disk.room += more
				write(3)
				disk.room += 100
				write(3)
				whole := uint64(0)
				for text := range strings.Lines(string(disk.text)) {
					if text == line {
						whole++
					} else if !strings.HasPrefix(line, strings.TrimSuffix(text, "\n")) {
						t.Errorf("room for %d, then %d more: the line %q", room, more, text)
					}
				}
				if s := w.Stats(); s.Written != whole || s.Dropped != 9-whole {
					t.Errorf("room for %d, then %d more: %+v, but %d whole lines in %q", room, more, s, whole, disk.text)
				}
				if !strings.HasSuffix(string(disk.text), line) {
					t.Errorf("room for %d, then %d more: the last line is lost: %q", room, more, disk.text)
				}
			}
		}
	}
}

// TestManyWriters: every line is written once, whole, and in the order of its writer.
func TestManyWriters(t *testing.T) {
	to := &file{}
	w, write := opened(t, to)
	const writers, each = 8, 2000
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				write(fmt.Sprintf("%d %d\n", i, n))
			}
		})
	}
	all.Wait()
	closed(t, w)
	next := make([]int, writers)
	for line := range bytes.Lines([]byte(strings.ReplaceAll(to.wrote(), "|", ""))) {
		var i, n int
		if _, err := fmt.Sscanf(string(line), "%d %d\n", &i, &n); err != nil || n != next[i] {
			t.Fatalf("%q: %v, want %d", line, err, next[i])
		}
		next[i]++
	}
	for i, n := range next {
		if n != each {
			t.Errorf("writer %d: %d of %d lines", i, n, each)
		}
	}
}
