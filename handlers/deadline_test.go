package handlers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineIsAContext: a deadline ends as the context of the standard library does, whether somebody waits for it or
// not, and with it all contexts made of it.
func TestDeadlineIsAContext(t *testing.T) {
	type ending func(of context.CancelFunc, d context.CancelFunc)
	for _, test := range []struct {
		name string
		end  ending
	}{
		{"time passes", func(_, _ context.CancelFunc) { time.Sleep(2 * time.Second) }},
		{"canceled", func(_, cancel context.CancelFunc) { cancel() }},
		{"the caller went away", func(away, _ context.CancelFunc) { away() }},
		{"time passes, and the caller went away", func(away, _ context.CancelFunc) { time.Sleep(2 * time.Second); away() }},
		{"the caller went away, and time passes", func(away, _ context.CancelFunc) { away(); time.Sleep(2 * time.Second) }},
		{"time passes, and it is canceled", func(_, cancel context.CancelFunc) { time.Sleep(2 * time.Second); cancel() }},
		{"nothing", func(_, _ context.CancelFunc) { time.Sleep(time.Second / 2) }},
	} {
		for _, when := range []string{"never waited", "waited", "asked", "child"} {
			t.Run(test.name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					of, away := context.WithCancel(context.Background())
					defer away()
					at := time.Now().Add(time.Second)
					lazy := newDeadline(of, at)
					defer lazy.cancel()
					eager, cancel := context.WithDeadline(of, at)
					defer cancel()
					var child context.Context = lazy
					switch when {
					case "waited":
						_ = lazy.Done()
					case "asked":
						_ = lazy.Err()
					case "child":
						var end context.CancelFunc
						child, end = context.WithTimeout(lazy, time.Hour)
						defer end()
					}
					test.end(away, func() { cancel(); lazy.cancel() })
					synctest.Wait()
					want := eager.Err()
					if test.name == "the caller went away, and time passes" && (when == "never waited" || when == "asked") {
						want = context.DeadlineExceeded // nobody saw the order
					}
					if got, _ := lazy.Deadline(); lazy.Err() != want || child.Err() != want || !got.Equal(at) {
						t.Errorf("%v, its child %v, want %v", lazy.Err(), child.Err(), want)
					}
					if isDone(lazy) != isDone(eager) || lazy.Err() != want {
						t.Errorf("done: %v, want %v; then %v, want %v", isDone(lazy), isDone(eager), lazy.Err(), want)
					}
				})
			})
		}
	}
}

func isDone(ctx context.Context) bool {
	done := ctx.Done()
	synctest.Wait()
	select {
	case <-done:
		return true
	default:
		return false
	}
}
