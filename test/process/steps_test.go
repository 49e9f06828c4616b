package process

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
)

// Steps that fail or are slow.

func (p *process) inFlight(t *testing.T) int {
	t.Helper()
	return int(p.metric(t, "usher_reviews_in_flight "))
}

// sendSlow posts concurrent reviews whose step takes the given time. Code 0 means no answer.
func (p *process) sendSlow(ctx context.Context, t *testing.T, n int, timeout string) <-chan reply {
	t.Helper()
	body, answers := annotated(t, podSample, slowWanted, ""), make(chan reply, n)
	for range n {
		go func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.reviews+"/mutate-pods?timeout="+timeout, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			answer, err := p.client.Do(r)
			if err != nil {
				answers <- reply{}
				return
			}
			got, _ := readReply(answer)
			answers <- got
		}()
	}
	return answers
}

// TestProcessPanic: a panic in a step is our failure: the caller gets a 500 without the stack; the log has the stack,
// once, and nothing of the object.
func TestProcessPanic(t *testing.T) {
	p := launched(t, launch{mode: troubled})
	const secret = "kq7-planted-secret"
	got, err := p.send("/mutate-pods", annotated(t, podSample, panicWanted, secret), nil)
	if err != nil || got.code != 500 || !strings.HasPrefix(got.body, "internal error") || len(got.body) > 150 {
		t.Errorf("%v, %d %s", err, got.code, got.body)
	}
	if n := p.metric(t, "usher_panics_total"); n != 1 {
		t.Errorf("%v panics are counted", n)
	}
	p.wantAlive(t)
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t)
	log := p.log.String()
	if n := strings.Count(log, "panicking: panic: runtime error: index out of range"); n != 1 || strings.Count(log, `"stack":`) != 1 || !strings.Contains(log, "runtime/debug.Stack") {
		t.Errorf("the log should have the panic and its stack once: %d\n%s", n, log)
	}
	if strings.Contains(log+got.body, secret) || strings.Contains(log, "registry.k8s.io/pause") {
		t.Errorf("the object is in the log:\n%s", log)
	}
}

// TestProcessOutOfTime: a step that uses up the deadline fails while its client is still waiting.
func TestProcessOutOfTime(t *testing.T) {
	t.Parallel()
	p := launched(t, launch{mode: troubled})
	for range scaled(1, 2, 20) {
		if got := <-p.sendSlow(t.Context(), t, 1, "1s"); got.code != 500 || strings.Contains(got.body, "deadline") {
			t.Errorf("%d %s", got.code, got.body)
		}
		p.wantAlive(t)
	}
	if failed, canceled := p.outcomes(t, handlers.Failed), p.outcomes(t, handlers.Canceled); failed == 0 || canceled != 0 {
		t.Errorf("%d failed, %d canceled", failed, canceled)
	}
}

// TestProcessOverload: above the limit, clients are told at once to retry, and that is counted.
func TestProcessOverload(t *testing.T) {
	p := launched(t, launch{mode: troubled, args: []string{"--max-in-flight", "1"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := p.sendSlow(ctx, t, 1, "30s")
	eventually(t, "the only slot is taken", func() bool { return p.inFlight(t) == 1 })
	many := scaled(4, 16, 200)
	inParallel(8, many, func(int) {
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods?timeout=10s", harness.ReadSample(t, podSample), nil)
		if err != nil || got.code != 503 || got.header.Get("Retry-After") != "1" || strings.Contains(got.body, "allowed") {
			t.Errorf("%v, %d, Retry-After %q: %s", err, got.code, got.header.Get("Retry-After"), got.body)
		}
	})
	if shed := p.outcomes(t, handlers.Shed); shed != many || p.inFlight(t) != 1 {
		t.Errorf("%d shed, want %d; %d in flight", shed, many, p.inFlight(t))
	}
	p.wantGolden(t, "mutate-nodes/overcommit") // heartbeats need no slot
	cancel()
	<-slow
	eventually(t, "the slot is free", func() bool { return p.inFlight(t) == 0 })
	p.wantAlive(t)
}
