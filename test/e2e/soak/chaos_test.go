package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// excuses are the periods in which a valid request may be refused.
type excuses struct {
	mu    sync.Mutex
	all   []*excuse
	noted []note
}

// note is an event that excuses nothing.
type note struct {
	what string
	at   time.Time
}

func (e *excuses) note(what string, replica int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noted = append(e.noted, note{fmt.Sprintf("%s %d", what, replica), time.Now()})
}

// before returns the last events, for a failure message.
func (e *excuses) before(at time.Time) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var text []string
	for _, n := range e.noted[max(0, len(e.noted)-6):] {
		text = append(text, fmt.Sprintf("%s %.3fs before", n.what, at.Sub(n.at).Seconds()))
	}
	return strings.Join(text, ", ")
}

// excuse is a period. It applies to a request that was in flight at any time in it.
type excuse struct {
	why      string
	from, to time.Time // to is zero while it lasts
}

func (e *excuses) begin(why string) (over func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := &excuse{why: why, from: time.Now()}
	e.all = append(e.all, one)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		one.to = time.Now()
	}
}

// of returns the excuse for a request that has been in flight since a time, or "".
func (e *excuses) of(since time.Time) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.to.IsZero() || since.Before(one.to) {
			return one.why
		}
	}
	return ""
}

// The reasons that excuse a refusal. SIGTERM is not among them: a terminated replica loses no request.
const (
	allDown   = "all replicas down"
	killed    = "a replica killed, and not yet found out"
	apiServer = "the API server restarts"
)

// chaos causes one failure after the other, and leaves everything running at the end. It spares the first replicas.
func (s *soak) chaos(random *rand.Rand, long time.Duration, spared int) {
	for until := time.Now().Add(long); time.Now().Before(until) && s.t.Context().Err() == nil; {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		one := spared + random.IntN(replicas-spared)
		var err error
		switch n := random.IntN(20); {
		case n < 9:
			err = s.kill(ctx, one)
		case n < 17:
			err = s.terminate(ctx, one)
		case n < 19 && spared == 0:
			err = s.killAll(ctx, time.Duration(random.IntN(3000))*time.Millisecond)
		default:
			err = s.restartAPIServer(ctx)
		}
		if err == nil {
			err = s.usher.Balancer.Wait(ctx, replicas)
		}
		cancel()
		if err != nil {
			s.t.Errorf("chaos: %v", err)
			return
		}
		kubetest.Pause(s.t.Context(), time.Duration(random.IntN(2000))*time.Millisecond) // calm, of random length
	}
}

func (s *soak) kill(ctx context.Context, i int) error {
	s.counts.Add("SIGKILL", 1)
	over := s.excuses.begin(killed)
	s.excuses.note("SIGKILL", i)
	s.usher.Replicas[i].Kill()
	err := kubetest.Eventually(ctx, func(context.Context) error {
		if s.usher.Balancer.IsReady(i) {
			return fmt.Errorf("replica %d still counts as ready", i)
		}
		return nil
	})
	over()
	s.excuses.note("found out", i)
	if err != nil {
		return err
	}
	defer s.excuses.note("start", i)
	return s.usher.Replicas[i].Start(ctx)
}

func (s *soak) terminate(ctx context.Context, i int) error {
	s.counts.Add("SIGTERM", 1)
	s.excuses.note("SIGTERM", i)
	if err := s.usher.Replicas[i].Terminate(ctx); err != nil {
		return err
	}
	s.excuses.note("ended", i)
	defer s.excuses.note("start", i)
	return s.usher.Replicas[i].Start(ctx)
}

func (s *soak) killAll(ctx context.Context, stayDown time.Duration) error {
	s.counts.Add(allDown, 1)
	defer s.excuses.begin(allDown)()
	for _, replica := range s.usher.Replicas {
		replica.Kill()
	}
	kubetest.Pause(ctx, stayDown)
	for _, replica := range s.usher.Replicas {
		if err := replica.Start(ctx); err != nil {
			return err
		}
	}
	return s.usher.Balancer.Wait(ctx, replicas)
}

// restartAPIServer gives the API server five seconds to end; for its watchers, such as kubelets, it would wait a
// minute.
func (s *soak) restartAPIServer(ctx context.Context) error {
	s.counts.Add(apiServer, 1)
	defer s.excuses.begin(apiServer)()
	stopping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.cluster.StopAPIServer(stopping); err != nil && stopping.Err() == nil {
		return err
	}
	return s.cluster.StartAPIServer(ctx)
}
