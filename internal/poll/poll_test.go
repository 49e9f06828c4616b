package poll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// script lists the results of readings in order; the last one repeats. A text that begins with "!" is an error.
type script struct {
	readings []string
	at       []time.Duration // when each reading was
	began    time.Time
}

func (s *script) read() (string, Sum, error) {
	s.at = append(s.at, time.Since(s.began))
	text := s.readings[0]
	if len(s.readings) > 1 {
		s.readings = s.readings[1:]
	}
	if cause, bad := strings.CutPrefix(text, "!"); bad {
		return "", Sum{}, errors.New(cause)
	}
	return text, SumOf([]byte(text)), nil
}

// TestChanges: what is used after each reading; "old" is in use at the start.
func TestChanges(t *testing.T) {
	for _, test := range []struct{ name, readings, want string }{
		{"nothing new", "old old old", ""},
		{"new", "old new new new", "new"},
		{"being written", "n ne new new", "new"},
		{"being written, and given up", "n ne old old", ""},
		{"there and back", "new old new old", ""},
		{"back again", "new new old old", "new old"},
		{"swapped while it was read", "!mismatch new new", "new"},
		{"an error that passes", "!gone old old", ""},
		{"an error", "!gone !gone !gone", "!gone"},
		{"an error that is over", "!gone !gone old old", "!gone old"},
		{"an error, then new", "!gone !gone new new new", "!gone new"},
		{"two errors", "!gone !gone !loop !loop !gone !gone", "!gone !loop !gone"},
		{"an error comes back", "!gone !gone !loop !gone !gone", "!gone"},
		{"bad, then the old one", "bad bad old old", "bad old"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				s := &script{readings: strings.Fields(test.readings), began: time.Now()}
				times := len(s.readings)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(times)*time.Second+time.Millisecond)
				defer cancel()
				Changes(ctx, Times{Every: time.Second}, SumOf([]byte("old")), s.read, func(text string, err error) {
					if err != nil {
						text = "!" + err.Error()
					}
					got = append(got, text)
				})
				if strings.Join(got, " ") != test.want || len(s.at) != times {
					t.Errorf("used %q in %d readings, want %q in %d", got, len(s.at), test.want, times)
				}
			})
		})
	}
}

// TestNow: a reading that Now triggers happens at once, and is confirmed shortly afterwards; then the normal interval
// applies.
func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := make(chan os.Signal, 1)
		s := &script{readings: []string{"half", "new"}, began: time.Now()}
		var used []string
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		time.AfterFunc(3*time.Second, func() { now <- syscall.SIGHUP })
		Changes(ctx, Times{time.Minute, now}, Sum{}, s.read, func(text string, _ error) {
			used = append(used, fmt.Sprint(text, " ", time.Since(s.began)))
		})
		if fmt.Sprint(s.at) != "[3s 3.1s]" || used != nil {
			t.Errorf("read at %v, used %v", s.at, used)
		}
		cancel()

		*s, used = script{readings: []string{"new"}, began: time.Now()}, nil
		ctx, cancel = context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		time.AfterFunc(3*time.Second, func() { now <- syscall.SIGHUP })
		Changes(ctx, Times{time.Minute, now}, Sum{}, s.read, func(text string, _ error) {
			used = append(used, fmt.Sprint(text, " ", time.Since(s.began)))
		})
		if fmt.Sprint(s.at) != "[3s 3.1s 1m3.1s]" || fmt.Sprint(used) != "[new 3.1s]" {
			t.Errorf("read at %v, used %v", s.at, used)
		}
	})
}

// TestSumOf: other texts, another order or other boundaries yield another sum.
func TestSumOf(t *testing.T) {
	seen := map[Sum]string{}
	for _, texts := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}} {
		var raw [][]byte
		for _, text := range texts {
			raw = append(raw, []byte(text))
		}
		if other, twice := seen[SumOf(raw...)]; twice {
			t.Errorf("%q and %s have one sum", texts, other)
		}
		seen[SumOf(raw...)] = fmt.Sprintf("%q", texts)
	}
}
