package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/admit"
)

// TestCeiling: with all slots taken a review waits and is then rejected; a slot that is freed in time is used.
func TestCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		slow := route(func(context.Context, *admit.Request, *admit.Pod) error {
			entered <- struct{}{}
			<-leave
			return nil
		})
		var mu sync.Mutex
		outcomes := map[Outcome]int{}
		e := Server{Limits: NewLimits(1), Draining: func() bool { return false }, Observe: func(_ admit.Route, d Decision, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			outcomes[d.Outcome]++
		}}
		mux := e.Serve([]admit.Route{slow})
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
		heartbeat.For[0].Resources = append(heartbeat.For[0].Resources, "nodes/status")
		w := httptest.NewRecorder()
		e.Serve([]admit.Route{heartbeat}).ServeHTTP(w, postTo(strings.NewReader(podReview)))
		if w.Code != 200 {
			t.Errorf("a heartbeat waits for nobody: %d", w.Code)
		}
		go send()
		synctest.Wait()
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
	})
}

// endlessly returns a request with a body of n bytes.
func endlessly(n int) *http.Request { return postTo(io.LimitReader(endless{}, int64(n))) }

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestHeldBytes: all bodies together stay within the limit, and release everything.
func TestHeldBytes(t *testing.T) {
	l := NewLimits(1)
	read := func(n int) (*body, error) {
		b := &body{limits: l}
		err := b.read(httptest.NewRecorder(), endlessly(n))
		if err == nil && len(b.buffer.bytes) != n {
			t.Errorf("read %d of %d bytes", len(b.buffer.bytes), n)
		}
		return b, err
	}
	for _, n := range []int{0, 1, firstBuffer - 1, firstBuffer, firstBuffer + 1, 1 << 20, MaxBody - 1, MaxBody} {
		b, err := read(n)
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		b.release()
	}
	var bodies []*body
	var err error
	for len(bodies) < 100 && err == nil {
		var b *body
		b, err = read(MaxBody)
		bodies = append(bodies, b)
	}
	if !errors.Is(err, errShed) || len(bodies) < 8 {
		t.Errorf("after %d of the largest bodies: %v", len(bodies), err)
	}
	b, err := read(2 << 10)
	if err != nil {
		t.Errorf("an ordinary review beside them: %v", err)
	}
	for _, b := range append(bodies, b) {
		b.release()
	}
	if l.held.Load() != 0 {
		t.Errorf("%d bytes are never given back", l.held.Load())
	}
	_, err = read(MaxBody + 1)
	if fault, ok := errors.AsType[*badRequestError](err); !ok || fault.code != http.StatusRequestEntityTooLarge {
		t.Errorf("one byte too many: %v", err)
	}
}

// TestRoomIsCounted: a body uses the smallest buffer that it fits in, whatever buffers are pooled, and all of it is
// counted.
func TestRoomIsCounted(t *testing.T) {
	l := NewLimits(1)
	for _, n := range []int{firstBuffer + 1, 200 << 10, 1 << 20, MaxBody} {
		for _, n := range []int{n, 0, 1, 50 << 10, n} {
			b := &body{limits: l}
			if err := b.read(httptest.NewRecorder(), endlessly(n)); err != nil {
				t.Fatal(err)
			}
			room := cap(b.buffer.bytes)
			if int64(room) != l.held.Load() || n < firstBuffer && room != firstBuffer || room > max(firstBuffer, 4*n) {
				t.Errorf("%d bytes are in a room of %d, and %d are counted", n, room, l.held.Load())
			}
			b.release()
		}
	}
}

// TestHeavyReviews: heavy reviews, heartbeats among them, are decided as far as memory permits. The others wait; light
// reviews do not.
func TestHeavyReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsIn(defaultMemory, 1)
		long, crowded, light := make([]byte, 1<<20), bytes.Repeat([]byte("{},"), 3000), bytes.Repeat([]byte("{},"), 500)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		grants := l.acquireAll(ctx, t, crowded, true, 8)
		if len(grants) < 2 {
			t.Errorf("%d heavy reviews at once", len(grants))
		}
		for _, body := range [][]byte{long, crowded} {
			if _, err := l.acquire(ctx, body, true); !errors.Is(err, errShed) {
				t.Errorf("a heavy heartbeat too many: %v", err)
			}
		}
		p, err := l.acquire(t.Context(), light, false)
		if err != nil {
			t.Errorf("a light review: %v", err)
		}
		p.release()
		entered := make(chan error)
		go func() {
			p, err := l.acquire(t.Context(), long, false)
			p.release()
			entered <- err
		}()
		for _, p := range grants {
			p.release()
		}
		if err := <-entered; err != nil {
			t.Errorf("the one that waited: %v", err)
		}
		wantAllFree(t, l)
	})
}

// acquireAll acquires for reviews with the same body until one is shed, and fails if more than most are not.
func (l *Limits) acquireAll(ctx context.Context, t *testing.T, body []byte, heartbeat bool, most int) (grants []grant) {
	t.Helper()
	for {
		p, err := l.acquire(ctx, body, heartbeat)
		if errors.Is(err, errShed) {
			return grants
		}
		if err != nil || len(grants) == most {
			t.Fatal(len(grants), err)
		}
		grants = append(grants, p)
	}
}

func wantAllFree(t *testing.T, l *Limits) {
	t.Helper()
	if len(l.slots) != 0 || !l.light.free.TryAcquire(l.light.all) || !l.heavy.free.TryAcquire(l.heavy.all) {
		t.Error("not all is given back")
	}
}

// TestLightReviews: light reviews are limited together, too, but a heartbeat among them is never rejected.
func TestLightReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsIn(defaultMemory, 1000)
		light := bytes.Repeat([]byte("{},"), 500)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		grants := l.acquireAll(ctx, t, light, false, 200)
		if len(grants) < 12 {
			t.Errorf("%d light reviews at once", len(grants))
		}
		p, err := l.acquire(ctx, light, true)
		if err != nil {
			t.Errorf("a light heartbeat: %v", err)
		}
		for _, p := range append(grants, p) {
			p.release()
		}
		wantAllFree(t, l)
	})
}

// TestLittleMemory: if there is less memory than one review may cost, it is decided alone.
func TestLittleMemory(t *testing.T) {
	l := limitsIn(16<<20, 1)
	for _, body := range [][]byte{make([]byte, MaxBody), bytes.Repeat([]byte("{},"), 1<<20)} {
		p, err := l.acquire(t.Context(), body, false)
		if err != nil {
			t.Fatal(err)
		}
		p.release()
	}
	wantAllFree(t, l)
}

// TestCosts: ordinary reviews are light; reviews that can be expensive are heavy, and counted as such.
func TestCosts(t *testing.T) {
	gpus := bytes.Repeat([]byte(`{"name":"c1","resources":{"limits":{"koordinator.sh/gpu":"200"},"requests":{"koordinator.sh/gpu":"200"}}},`), 500)
	for _, c := range []struct {
		name     string
		body     []byte
		from, to int64
	}{
		{"nothing", nil, 1, 160 << 10},
		{"a 20 KB pod", bytes.Repeat([]byte(`{"name":"some","list":["of","values"],"among":"others","and":"more"},`), 250), 500 << 10, lightCost},
		{"a pod as the API server sends it", productionReview(t), 500 << 10, 1200 << 10},
		{"500 containers with devices", gpus, 6 << 20, 10 << 20},
		{"500 containers after managedFields", slices.Concat([]byte(`{"managedFields":[{"f:a":{"k:{\"n\":\"]\"}":{}}}],"containers":[`), gpus), 6 << 20, 10 << 20},
		{"500 containers after managedFields in a string", slices.Concat([]byte(`{"\"managedFields\":[","containers":[`), gpus), 6 << 20, 10 << 20},
		{"a list of managedFields without an end", []byte(`{"managedFields":[{"f:a":"\`), 1, 160 << 10},
		{"7 MiB", make([]byte, MaxBody), 14 << 20, 20 << 20},
		{"half a million values", bytes.Repeat([]byte("{},"), 500_000), 60 << 20, 80 << 20},
	} {
		if cost := costOf(c.body); cost < c.from || cost > c.to {
			t.Errorf("%s: %d bytes, want %d to %d", c.name, cost, c.from, c.to)
		}
	}
}

// productionReview returns the review of an ordinary pod, whose managedFields have hundreds of objects, as compact as the API server
// sends it.
func productionReview(t *testing.T) []byte {
	text, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	var compact bytes.Buffer
	if err := errors.Join(err, json.Compact(&compact, text)); err != nil {
		t.Fatal(err)
	}
	return compact.Bytes()
}

// TestLargeAnswers: an answer that its client does not read counts like a body.
func TestLargeAnswers(t *testing.T) {
	label := strings.Repeat("x", 1<<20)
	large := route(func(_ context.Context, _ *admit.Request, p *admit.Pod) error {
		p.SetLabel("a", label)
		return nil
	})
	e := testServer(func(admit.Route, Decision, time.Duration) {})
	e.Limits.held.Store(e.Limits.maxHeld - 8<<20) // by others
	answers := 0
	for ; answers < 100; answers++ {
		answer := e.review(large, httptest.NewRecorder(), postTo(strings.NewReader(podReview)))
		if answer.code == http.StatusServiceUnavailable && answer.retry == 1 {
			break
		}
		if answer.code != http.StatusOK || answer.held < 1<<20 {
			t.Fatalf("%d, %d held", answer.code, answer.held)
		}
	}
	if answers < 2 || answers > 7 {
		t.Errorf("%d answers of more than 1 MiB have room in 8 MiB", answers)
	}
}
