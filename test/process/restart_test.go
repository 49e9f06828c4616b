package process

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"usher.dev/usher/certs"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// Replicas that are stopped or killed under load.

// fixed returns options of clients that always expect the same answers.
func fixed(t *testing.T) func() func(string, reply) bool {
	t.Helper()
	return oneOf(rightAnswers(t, harness.DefaultPolicy(t, routes.Suites())))
}

// drainArgs give clients time to notice that they should use another replica, also where a probe takes a second.
var drainArgs = []string{"--shutdown-delay", "5s"}

// pair starts two replicas with one CA, behind a balancer.
func pair(t *testing.T) (launch, []*process, *balancer) {
	t.Helper()
	l := launch{state: t.TempDir(), args: drainArgs}
	both := []*process{launched(t, l), launched(t, l)}
	return l, both, newBalancer(t, both...)
}

// TestProcessGracefulRestart: the replicas are stopped and replaced one after the other, and no client notices.
func TestProcessGracefulRestart(t *testing.T) {
	t.Parallel()
	l, replicas, b := pair(t)
	clients := startLoad(t, loadOptions{address: b.address, roots: replicas[0].roots, clients: 8, right: fixed(t)})
	some := scaled(50, 200, 2000)
	clients.more(t, some)
	for round := range scaled(2, 2, 20) {
		old := replicas[round%2]
		old.signal(t, syscall.SIGTERM)
		clients.more(t, some)
		old.wantExit(t)
		replicas[round%2] = launched(t, l)
		b.replace(old, replicas[round%2])
		clients.more(t, some)
	}
	clients.wantNoFailure(t)
	for _, p := range replicas {
		p.signal(t, syscall.SIGTERM)
	}
	for _, p := range replicas {
		p.wantExit(t)
	}
}

// TestProcessKilled: a killed replica loses the reviews in progress, and nothing else.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	l, replicas, b := pair(t)
	ca := harness.ReadFile(t, filepath.Join(l.state, certs.CACertFile))
	clients := startLoad(t, loadOptions{address: b.address, roots: replicas[0].roots, clients: 8, right: fixed(t)})
	some, rounds := scaled(50, 200, 2000), scaled(1, 2, 20)
	for round := range rounds {
		clients.more(t, some)
		old := replicas[round%2]
		old.signal(t, syscall.SIGKILL)
		<-old.ended
		clients.more(t, some)
		replicas[round%2] = launched(t, l)
		b.replace(old, replicas[round%2])
	}
	clients.more(t, some)
	failed := clients.finish()
	t.Logf("%d reviews, %d failed", clients.answered.Load(), len(failed))
	if len(failed) > 2*8*rounds { // the one in hand, and one more for who connects while the system closes the sockets
		t.Errorf("%d failures of 8 clients in %d kills", len(failed), rounds)
	}
	for _, err := range failed {
		if errors.Is(err, errWrong) || errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if harness.ReadFile(t, filepath.Join(l.state, certs.CACertFile)) != ca {
		t.Error("there is another CA than before")
	}
	for _, p := range replicas {
		p.wantAlive(t)
	}
}

// TestProcessFinishes: a review in progress when the process is told to stop is answered.
func TestProcessFinishes(t *testing.T) {
	p := launched(t, launch{mode: troubled})
	half := p.hold(t, whole("/mutate-pods?timeout=30s", harness.ReadSample(t, podSample)), 100)
	half.settle()
	slow := p.sendSlow(t.Context(), t, 1, "8s") // long enough to be seen at work
	eventually(t, "a step is at work", func() bool { return p.inFlight(t) == 1 })
	p.signal(t, syscall.SIGTERM)
	p.waitLog(t, "draining")
	if got := half.finish(); got.code != 200 || !strings.Contains(got.body, `"patch":"`) {
		t.Errorf("the body under way: %d %.300s", got.code, got.body)
	}
	if got := <-slow; got.code != 500 {
		t.Errorf("the step at work: %d %s", got.code, got.body)
	}
	p.wantExit(t)
}

// TestProcessStopsAnyway: a client that holds a request open beyond the grace period is cut off, and the process exits
// normally.
func TestProcessStopsAnyway(t *testing.T) {
	p := launched(t, launch{mode: troubled, args: []string{"--shutdown-grace", "300ms"}})
	half := p.hold(t, whole("/mutate-pods", harness.ReadSample(t, podSample)), 100)
	half.settle()
	idle := p.dial(t)
	slow := p.sendSlow(t.Context(), t, 1, "30s")
	eventually(t, "a step is at work", func() bool { return p.inFlight(t) == 1 })
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t)
	<-half.answered
	if half.reply.code == 200 {
		t.Errorf("half a review got %s", half.reply.body)
	}
	if got := <-slow; got.code == 200 {
		t.Errorf("a review that was cut off got %d %s", got.code, got.body)
	}
	if got, err := idle.answer(); err == nil {
		t.Errorf("an idle connection got %d", got.code)
	}
}
