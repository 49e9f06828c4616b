package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

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
	fullPlan  = plan{rounds: 5, cell: 600 * time.Millisecond, fewest: 2, limit: 8 * time.Minute}
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

// measureAll runs all measurements.
func measureAll(ctx context.Context, p plan, names *regexp.Regexp, before string, progress io.Writer) (*Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("not done within %v: the machine is too busy to measure", p.limit))
	defer cancel()
	version, err := usherVersion(ctx)
	if err != nil {
		return nil, err
	}
	var report *Report
	err = inDirectory(p, before, progress, func(b *bench) error {
		report = describeRun(ctx, b)
		report.Usher = version
		for _, r := range reviews.All() {
			if !names.MatchString(r.Name) {
				continue
			}
			cells, err := b.measureReview(ctx, r)
			if err != nil {
				return err
			}
			report.Cells = append(report.Cells, cells...)
		}
		return nil
	})
	return report, err
}

// inDirectory calls run with a bench that has a directory with a certificate.
func inDirectory(p plan, before string, progress io.Writer, run func(*bench) error) error {
	dir, err := os.MkdirTemp("", "usher-load-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{plan: p, pinning: pin(), before: before, dir: dir, progress: progress}
	if err := os.Mkdir(filepath.Join(dir, cluster), 0o700); err != nil {
		return err
	}
	if b.client, err = makeCertificate(dir); err != nil {
		return err
	}
	return run(b)
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

func describeRun(ctx context.Context, b *bench) *Report {
	commit, _ := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	pinned := "not pinned: one core, or the kernel does not allow it; the ratios are worth less"
	if b.pinned {
		pinned = fmt.Sprintf("servers on core %d, load on core %d", b.servers, b.load)
	}
	return &Report{
		Date: time.Now().UTC().Format(time.RFC3339), Commit: strings.TrimSpace(string(commit)), Go: runtime.Version(),
		CPU: cpuModel(), Cores: runtime.NumCPU(), Pinned: pinned, Rounds: b.rounds, Quick: b.quick,
	}
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
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
		conns, err := connect(ctx, s.Reviews, b.client, 1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		answer, err := conns[0].post(requestBytes(r))
		answers[s.name] = slices.Clone(answer)
		closeAll(conns)
		if err != nil {
			return nil, fmt.Errorf("%s to %s: %w", r.Name, s.name, err)
		}
	}
	return answers, sameOutcome(r, answers)
}

// measureServers measures all servers round by round, so that noise on the machine affects all of them equally.
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
	for range b.rounds {
		for _, w := range all {
			if err := w.round(ctx); err != nil {
				return nil, fmt.Errorf("%s to %s: %w", r.Name, w.server.name, err)
			}
		}
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
