package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"usher.dev/usher/bench/report"
	"usher.dev/usher/certs"
	"usher.dev/usher/test/reviews"
)

// plan defines how much is measured.
type plan struct {
	rounds int
	cell   time.Duration // of one round of one server
	fewest int           // reviews per connection in a round
	limit  time.Duration // of everything
	quick  bool
}

var (
	fullPlan  = plan{rounds: 5, cell: 600 * time.Millisecond, fewest: 2, limit: 20 * time.Minute}
	quickPlan = plan{rounds: 3, cell: 60 * time.Millisecond, fewest: 1, limit: 40 * time.Second, quick: true}
)

// connections are the numbers of connections to measure with.
var connections = []int{1, cpuConnections, tailConnections}

// bench is the state of a run.
type bench struct {
	plan
	pinning
	before   string // the binary to compare usher with; "" for none
	dir      string // certificates, the cluster and logs
	client   *tls.Config
	progress io.Writer
}

// measureAll measures the reviews whose names match.
func measureAll(ctx context.Context, o report.Options, only, before string, progress io.Writer) (*Report, error) {
	names, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	how := fullPlan
	if o.Quick {
		how = quickPlan
	}
	r := &Report{}
	err = inDirectory(ctx, how, pin(), progress, func(ctx context.Context, b *bench) (err error) {
		b.before = before
		if r.Head, err = b.describe(ctx); err != nil {
			return err
		}
		for _, review := range reviews.All() {
			if !names.MatchString(review.Name) {
				continue
			}
			cells, err := b.measureReview(ctx, review)
			if err != nil {
				return err
			}
			r.Cells = append(r.Cells, cells...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// inDirectory calls run, which must be done within the limit of the plan, with a bench that has a directory with a certificate.
func inDirectory(ctx context.Context, p plan, on pinning, progress io.Writer, run func(context.Context, *bench) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("not done within %v: the machine is too busy to measure", p.limit))
	defer cancel()
	dir, err := os.MkdirTemp("", "usher-load-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{plan: p, pinning: on, dir: dir, progress: progress}
	if err := os.Mkdir(filepath.Join(dir, manifests), 0o700); err != nil {
		return err
	}
	if b.client, err = makeCertificate(dir); err != nil {
		return err
	}
	return run(ctx, b)
}

// makeCertificate writes a CA and a certificate signed by it to the directory that all servers read.
func makeCertificate(dir string) (*tls.Config, error) {
	names, err := certs.ServiceNames("")
	if err != nil {
		return nil, err
	}
	ca, err := certs.EnsureLocal(dir, names, time.Now(), func(string) {})
	if err != nil {
		return nil, err
	}
	return clientConfig(ca)
}

// describe returns the head of the run.
func (b *bench) describe(ctx context.Context) (report.Head, error) {
	h := report.Describe(ctx, b.rounds, b.quick)
	h.Pinned = "not pinned: one core, or the kernel does not allow it; the ratios are worth less"
	if b.pinned {
		h.Pinned = fmt.Sprintf("servers on core %d, load on core %d", b.servers, b.load)
	}
	var err error
	h.Usher, err = usherVersion(ctx)
	return h, err
}

// measureReview starts all servers and measures one review on them.
func (b *bench) measureReview(ctx context.Context, r reviews.Review) (cells []Cell, err error) {
	list, err := b.startAll(ctx, r)
	if err != nil {
		return nil, err
	}
	defer stopAll(list)
	first, err := b.firstAnswers(ctx, list, r)
	if err != nil {
		return nil, err
	}
	for _, n := range connections {
		measured, err := b.measureServers(ctx, list, r, first, n)
		if err != nil {
			return nil, err
		}
		cells = append(cells, measured...)
	}
	return cells, nil
}

// firstAnswers sends the review to every server once, and checks the answers.
func (b *bench) firstAnswers(ctx context.Context, list []*process, r reviews.Review) (map[string][]byte, error) {
	answers := map[string][]byte{}
	for _, s := range list {
		answer, err := b.firstAnswer(ctx, s, r)
		if err != nil {
			return nil, fmt.Errorf("%s to %s: %w", r.Name, s.name, err)
		}
		answers[s.name] = answer
	}
	return answers, sameOutcome(r, answers)
}

// firstAnswer sends the review to a server once.
func (b *bench) firstAnswer(ctx context.Context, s *process, r reviews.Review) ([]byte, error) {
	conns, err := connect(ctx, s.Reviews, b.client, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll(conns)
	return conns[0].post(requestBytes(r)) // the buffer of a connection that is not used again
}

// takeTurns measures one round after the other, in each of them all works, so that noise on the machine affects all of them equally.
func (b *bench) takeTurns(ctx context.Context, all []*work) error {
	for range b.rounds {
		for _, w := range all {
			if err := w.round(ctx); err != nil {
				return fmt.Errorf("%s: %w", w.server.name, err)
			}
		}
	}
	return nil
}

// measureServers measures all servers over n connections.
func (b *bench) measureServers(ctx context.Context, list []*process, r reviews.Review, first map[string][]byte, n int) ([]Cell, error) {
	var all []*work
	for _, s := range list {
		w, err := b.prepare(ctx, s, r, first[s.name], n)
		if err != nil {
			return nil, fmt.Errorf("%s to %s: %w", r.Name, s.name, err)
		}
		defer closeAll(w.conns)
		all = append(all, w)
	}
	if err := b.takeTurns(ctx, all); err != nil {
		return nil, fmt.Errorf("%s to %w", r.Name, err)
	}
	var cells []Cell
	for _, w := range all {
		c, err := w.cell(r)
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(b.progress, "%-25s %2d connections  %-8s %6d × %d  %8.0f/s  CPU %8.1f µs\n",
			c.Review, c.Connections, c.Server, c.Reviews, b.rounds, c.PerSecond, c.CPU)
		cells = append(cells, c)
	}
	return cells, nil
}
