package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/admit"
)

// TestCeiling: with all slots taken a review waits, then is sent away; a slot that is freed in time is used.
func TestCeiling(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := route(func(context.Context, *admit.Request, *admit.Pod) error {
		entered <- struct{}{}
		<-leave
		return nil
	})
	var mu sync.Mutex
	outcomes := map[Outcome]int{}
	e := Edge{Limits: NewLimits(1), Draining: func() bool { return false }, Observe: func(_ Route, d Decision, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[d.Outcome]++
	}}
	mux := e.Serve([]Route{slow})
	answers := make(chan *httptest.ResponseRecorder, 3)
	send := func() {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, postTo(strings.NewReader(podReview)))
		answers <- w
	}
	go send()
	<-entered
	if e.Limits.InFlight() != 1 {
		t.Errorf("%d in flight", e.Limits.InFlight())
	}
	go send()
	if w := <-answers; w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("beyond the ceiling: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	heartbeat := route(succeed)
	heartbeat.Heartbeat = true
	w := httptest.NewRecorder()
	e.Serve([]Route{heartbeat}).ServeHTTP(w, postTo(strings.NewReader(podReview)))
	if w.Code != 200 {
		t.Errorf("a heartbeat waits for nobody: %d", w.Code)
	}
	go send()
	leave <- struct{}{}
	if w := <-answers; w.Code != 200 {
		t.Errorf("the first: %d", w.Code)
	}
	<-entered
	leave <- struct{}{}
	if w := <-answers; w.Code != 200 {
		t.Errorf("the one that waited: %d", w.Code)
	}
	mu.Lock()
	defer mu.Unlock()
	if outcomes[Shed] != 1 || outcomes[Allowed] != 2 || outcomes[Mutated] != 1 || e.Limits.InFlight() != 0 {
		t.Errorf("%v, %d in flight", outcomes, e.Limits.InFlight())
	}
}

// TestHeldBytes: bodies together hold no more than the bound, and give all of it back.
func TestHeldBytes(t *testing.T) {
	l := NewLimits(1)
	read := func(n int) (func(), error) {
		var into bytes.Buffer
		r := postTo(io.LimitReader(endless{}, int64(n)))
		release, err := l.read(&into, httptest.NewRecorder(), r)
		if err == nil && into.Len() != n {
			t.Errorf("read %d of %d bytes", into.Len(), n)
		}
		return release, err
	}
	for _, n := range []int{0, 1, firstRoom - bytes.MinRead - 1, firstRoom - bytes.MinRead, firstRoom, 1 << 20, maxBody} {
		release, err := read(n)
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		release()
	}
	var releases []func()
	var err error
	for range 100 {
		var release func()
		release, err = read(maxBody)
		releases = append(releases, release)
		if err != nil {
			break
		}
	}
	if !errors.Is(err, errShed) || len(releases) < 4 {
		t.Errorf("after %d of the largest bodies: %v", len(releases), err)
	}
	release, err := read(2 << 10)
	if err != nil {
		t.Errorf("an ordinary review beside them: %v", err)
	}
	release()
	for _, release := range releases {
		release()
	}
	if l.held.Load() != 0 {
		t.Errorf("%d bytes are never given back", l.held.Load())
	}
	var into bytes.Buffer
	for range 3 { // a buffer that is used again makes no more room than it needs
		into.Reset()
		release, err := l.read(&into, httptest.NewRecorder(), postTo(io.LimitReader(endless{}, 220<<10)))
		if release(); err != nil || into.Cap() > maxRecycled {
			t.Errorf("a buffer of %d bytes: %v", into.Cap(), err)
		}
	}
	_, err = read(maxBody + 1)
	if fault, ok := errors.AsType[*callerFault](err); !ok || fault.code != http.StatusRequestEntityTooLarge {
		t.Errorf("one byte too many: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
