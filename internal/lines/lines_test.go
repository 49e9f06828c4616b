package lines

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// file records the writes that it gets.
type file struct {
	mu     sync.Mutex
	writes []string
	err    error
}

func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
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

func write(t *testing.T, w *Writer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%d of %d bytes: %v", n, len(line), err)
		}
	}
}

// TestPause: a line after a pause is written at once, those that follow are when the pause is over, in one write.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &file{}
		w := New(to)
		step := func(wait time.Duration, want string, lines ...string) {
			t.Helper()
			write(t, w, lines...)
			time.Sleep(wait)
			synctest.Wait()
			if got := to.wrote(); got != want {
				t.Errorf("after %v: %q, want %q", lines, got, want)
			}
		}
		step(0, "a", "a")
		step(Pause/2, "", "b", "c")
		step(Pause, "bcd", "d")
		step(0, "", "e")    // the pause after bcd
		step(10*Pause, "e") // ends with e, and the one after e without a line
		step(10*Pause, "f", "f")
	})
}

// TestFlush writes what waits, and nothing twice.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &file{}
		w := New(to)
		write(t, w, "a", "b", "c")
		for range 2 {
			if err := w.Flush(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * Pause)
		if got := to.wrote(); got != "a|bc" {
			t.Errorf("%q", got)
		}
	})
}

// TestMost: lines that fill a write do not wait for the pause; a write has whole lines, and no more than most bytes unless
// one line has.
func TestMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &file{}
		w := New(to)
		third, long := strings.Repeat("x", most/3), strings.Repeat("y", 2*most)
		write(t, w, "a", third, third, third, third, "b", long, "c")
		if want := strings.Join([]string{"a", third + third + third, third + "b", long}, "|"); to.wrote() != want {
			t.Error("other writes")
		}
		if err := w.Flush(); err != nil || to.wrote() != "c" {
			t.Error("the last line is lost", err)
		}
	})
}

// TestCopies: a line that waits is a copy.
func TestCopies(t *testing.T) {
	to := &file{}
	w := New(to)
	line := []byte("a")
	write(t, w, "first")
	if _, err := w.Write(line); err != nil {
		t.Error(err)
	}
	line[0] = 'z'
	if err := w.Flush(); err != nil || to.wrote() != "first|a" {
		t.Error("changed", err)
	}
}

// TestErrors: a failed write is reported, and does not keep later lines out.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &file{}
		w := New(to)
		write(t, w, "a", "b")
		to.err = errors.New("full")
		if err := w.Flush(); !errors.Is(err, to.err) {
			t.Error(err)
		}
		time.Sleep(10 * Pause)
		if _, err := w.Write([]byte("c")); !errors.Is(err, to.err) {
			t.Error(err)
		}
		to.err = nil
		time.Sleep(10 * Pause)
		if write(t, w, "d"); to.wrote() != "a|d" {
			t.Error("d is lost")
		}
	})
}

// TestManyWriters: every line is written once, whole, and in the order of its writer.
func TestManyWriters(t *testing.T) {
	to := &file{}
	w := New(to)
	const writers, each = 8, 2000
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range each {
				write(t, w, fmt.Sprintf("%d %d\n", i, n))
			}
		})
	}
	all.Wait()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
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
