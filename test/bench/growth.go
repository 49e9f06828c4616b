package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"usher.dev/usher/bench/report"
)

// A growth run measures what a review, a start and the memory cost while something grows: usher serve as a process, with a
// stand-in for the API server.

// growthLimit bounds the whole run.
const growthLimit = 30 * time.Minute

var (
	fullGrowth  = plan{rounds: 5, cell: 400 * time.Millisecond, fewest: 2, limit: growthLimit}
	quickGrowth = plan{rounds: 2, cell: 40 * time.Millisecond, fewest: 1, limit: growthLimit, quick: true}
)

// measureGrowth measures subjects.
func measureGrowth(ctx context.Context, p plan, on pinning, what []subject, progress io.Writer) (*Growth, error) {
	g := &Growth{}
	err := inDirectory(ctx, p, on, progress, func(ctx context.Context, b *bench) (err error) {
		if g.Head, err = b.describe(ctx); err != nil {
			return err
		}
		for _, s := range what {
			points, err := b.grow(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			g.Points = append(g.Points, points...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// grown is a server in a world of one size.
type grown struct {
	*process
	world
	Point
	stop func()
}

// grow measures one subject: it starts a server for each size, one after the other, and then takes turns between them.
func (b *bench) grow(ctx context.Context, s subject) (points []Point, err error) {
	var list []*grown
	defer func() {
		for _, g := range list {
			g.stop()
		}
	}()
	for _, count := range s.sizes {
		g, err := b.startIn(ctx, s.world(count))
		if err != nil {
			return nil, fmt.Errorf("%d: %w", count, err)
		}
		list = append(list, g)
		g.Subject, g.Count = s.name, count
		_, _ = fmt.Fprintf(b.progress, "%-16s %7d  ready after %6.2f s and %6.2f s of CPU (%.2f plain), %6.1f MB, at most %6.1f MB\n",
			s.name, count, g.Ready, g.StartCPU, g.PlainCPU, mega(g.Heap), mega(g.Peak))
	}
	for line := range list[0].lines {
		if err := b.costs(ctx, list, line); err != nil {
			return nil, fmt.Errorf("%s: %w", list[0].lines[line].name, err)
		}
	}
	for _, g := range list {
		points = append(points, g.Point)
	}
	return points, nil
}

// gatesFile has the gates of `make run`, with which every step that reads the state of the cluster runs.
const gatesFile = "samples/feature-gates"

// startIn starts a server in a world and waits until it is ready.
func (b *bench) startIn(ctx context.Context, w world) (*grown, error) {
	has := surroundings()
	for resource, o := range w.has {
		has[resource] = o
	}
	api := &standIn{has: has, streams: !w.asList}
	kubeconfig, stop, err := api.serve(b.dir)
	if err != nil {
		return nil, err
	}
	cmd, err := b.growthCommand(kubeconfig, w)
	if err != nil {
		stop()
		return nil, err
	}
	begin := time.Now()
	p, err := b.launch(ctx, filepath.Base(kubeconfig), cmp.Or(w.memory, "2GiB"), cmd)
	if err != nil {
		stop()
		return nil, err
	}
	g := &grown{process: p, world: w, stop: func() { p.stop(); stop() }}
	if err = g.awaitReady(ctx, begin); err == nil {
		err = g.readMemory(ctx)
	}
	if err == nil && w.decoded {
		g.PlainCPU, err = b.decodePods(ctx, api.url)
	}
	if err != nil {
		g.stop()
		return nil, err
	}
	return g, nil
}

func (b *bench) growthCommand(kubeconfig string, w world) (*exec.Cmd, error) {
	gates, err := os.ReadFile(gatesFile)
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--state-dir", b.dir, "--log-format", "json",
		"--shutdown-delay", "0s", "--cluster", "api", "--kubeconfig", kubeconfig, "--feature-gates", strings.TrimSpace(string(gates)), "--pprof"}
	if w.overrides != "" {
		policy := kubeconfig + ".policy.yaml"
		if err := os.WriteFile(policy, []byte(w.overrides), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--config", policy)
	}
	return exec.Command(usherBinary, args...), nil
}

// costs measures one line on all servers.
func (b *bench) costs(ctx context.Context, list []*grown, line int) error {
	var all []*work
	for _, g := range list {
		w, err := b.prepareLine(ctx, g, g.lines[line])
		if err != nil {
			return fmt.Errorf("%d: %w", g.Count, err)
		}
		defer closeAll(w.conns)
		all = append(all, w)
	}
	if err := b.takeTurns(ctx, all); err != nil {
		return err
	}
	for i, g := range list {
		cell, err := all[i].cell(g.lines[line].review)
		if err != nil {
			return err
		}
		if g.lines[line].fewest > 0 {
			cell.CPU = report.Rounded(mean(cell.CPURounds), 4)
		}
		g.Costs = append(g.Costs, Cost{Line: g.lines[line].name, CPU: cell.CPU, Objects: cell.Objects})
		_, _ = fmt.Fprintf(b.progress, "%-16s %7d  %-26s CPU %8.1f µs, %7.0f objects\n",
			g.Subject, g.Count, g.lines[line].name, cell.CPU, cell.Objects)
	}
	return nil
}

// prepareLine posts the review once, checks the verdict, and prepares the rounds.
func (b *bench) prepareLine(ctx context.Context, g *grown, line growthLine) (*work, error) {
	first, err := b.firstAnswer(ctx, g.process, line.review)
	if err != nil {
		return nil, err
	}
	if line.allows != strings.Contains(string(first), `"allowed":true`) {
		return nil, fmt.Errorf("allowed should be %v: %s", line.allows, first)
	}
	w, err := b.prepare(ctx, g.process, line.review, first, cpuConnections)
	if err == nil {
		w.count = max(w.count, line.fewest)
	}
	return w, err
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// awaitReady waits until /readyz answers 200, and sets what the start cost.
func (g *grown) awaitReady(ctx context.Context, begin time.Time) error {
	for {
		code, text, err := get(ctx, g.Operations, "/readyz")
		if err != nil {
			return err
		}
		if code == http.StatusOK {
			break
		}
		select {
		case <-g.done:
			return fmt.Errorf("ended: %w", g.err)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %s", context.Cause(ctx), text)
		case <-time.After(max(5*time.Millisecond, time.Since(begin)/100)): // the question costs CPU as well
		}
	}
	g.Ready = report.Rounded(time.Since(begin).Seconds(), 3)
	cpu, err := cpuTime(g.cmd.Process.Pid)
	g.StartCPU = report.Rounded(cpu.Seconds(), 3)
	return err
}

// readMemory sets the peak of the resident memory, and then the heap after two garbage collections.
func (g *grown) readMemory(ctx context.Context) (err error) {
	if g.Peak, err = peakMemory(g.cmd.Process.Pid); err != nil {
		return err
	}
	var page []byte
	for _, path := range []string{"/debug/pprof/heap?gc=1", "/debug/pprof/heap?gc=1", "/metrics"} {
		if _, page, err = get(ctx, g.Operations, path); err != nil {
			return err
		}
	}
	bytes, err := gauge(page, "go_memstats_heap_alloc_bytes")
	g.Heap = int64(bytes)
	return err
}
