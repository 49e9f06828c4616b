package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/test/reviews"
)

// A growth run measures what a review, a start and the memory cost while something grows: usher serve as a process, with a
// stand-in for the API server.

// subject is something that grows, in one form.
type subject struct {
	name  string
	sizes []int
	world func(count int) world
}

// world is a cluster and a policy of one size.
type world struct {
	has       map[string]objects // beside the surroundings
	asList    bool               // the API server sends a list, not a watch with initial events
	overrides string             // a policy file, or empty
	lines     []growthLine
}

// growthLine is a review whose cost is a line in a chart.
type growthLine struct {
	name   string
	review reviews.Review
	allows bool // whether the first answer must be a permission
}

// growthLimit bounds the whole run.
const growthLimit = 30 * time.Minute

var (
	fullGrowth  = plan{rounds: 5, cell: 400 * time.Millisecond, fewest: 2, limit: growthLimit}
	quickGrowth = plan{rounds: 2, cell: 40 * time.Millisecond, fewest: 1, limit: growthLimit, quick: true}
)

// subjects returns what is measured; a short run has fewer and smaller sizes.
func subjects(quick bool) []subject {
	counts, podCounts := []int{10, 100, 1000, 10_000}, []int{0, 20_000, 100_000, 200_000}
	if quick {
		counts, podCounts = []int{10, 1000}, []int{0, 5_000}
	}
	return subjectsOf(counts, podCounts)
}

// subjectsOf returns what is measured. The most pods are not listed: that is what API servers before 1.34 do.
func subjectsOf(counts, podCounts []int) []subject {
	return []subject{
		{"profiles", counts, func(n int) world { return profileWorld(n, false) }},
		{"broad profiles", counts, func(n int) world { return profileWorld(n, true) }},
		{"overrides", counts, func(n int) world { return overrideWorld(n, false) }},
		{"broad overrides", counts, func(n int) world { return overrideWorld(n, true) }},
		{"flat quotas", counts, func(n int) world { return quotaWorld(n, true) }},
		{"quota tree", counts, func(n int) world { return quotaWorld(n, false) }},
		{"pods", podCounts, podWorld},
		{"pods in a list", podCounts[:max(2, len(podCounts)-1)], func(n int) world {
			w := podWorld(n)
			w.asList, w.lines = true, nil
			return w
		}},
	}
}

func profileWorld(count int, broad bool) world {
	pod := func(team string) reviews.Review {
		return creation("/mutate-pod", "web", map[string]string{"app": "web", "team": team})
	}
	lines := []growthLine{{"one matches", pod("team-0"), true}, {"none matches", pod("none"), true}}
	if broad {
		lines = []growthLine{{"one of all that could", pod("team-0"), true}}
	}
	return world{has: map[string]objects{"clustercolocationprofiles": profiles(count, broad)}, lines: lines}
}

func overrideWorld(count int, broad bool) world {
	pod := func(team string) reviews.Review {
		return creation("/validate-pods", "offensive", map[string]string{"app": "web", "team": team})
	}
	lines := []growthLine{{"one matches", pod("team-0"), true}, {"none matches", pod("none"), false}}
	if broad {
		lines = []growthLine{{"one of all that could", pod("team-0"), true}}
	}
	return world{overrides: overrides(count, broad), lines: lines}
}

func quotaWorld(count int, flat bool) world {
	all, i := quotas(count, flat), leaf(count, flat)
	form := map[bool]string{true: "flat", false: "5 levels"}[flat]
	return world{has: map[string]objects{"elasticquotas": all}, lines: []growthLine{
		{"new pod, " + form, creation("/validate-pod", "web", map[string]string{quotaName: fmt.Sprintf("quota-%d", i)}), true},
		{"changed quota, " + form, quotaUpdate(all, i), true},
	}}
}

func podWorld(count int) world {
	return world{has: map[string]objects{"pods": pods(count), "elasticquotas": quotas(100, true)}, lines: []growthLine{
		{"new pod in a quota", creation("/validate-pod", "web", map[string]string{quotaName: "quota-7"}), true},
	}}
}

// measureGrowth measures all subjects.
func measureGrowth(ctx context.Context, p plan, on pinning, what []subject, progress io.Writer) (*Growth, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("not done within %v: the machine is too busy to measure", p.limit))
	defer cancel()
	version, err := usherVersion(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "usher-growth-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{plan: p, pinning: on, dir: dir, progress: progress}
	if b.client, err = makeCertificate(dir); err != nil {
		return nil, err
	}
	head := *describeRun(ctx, b)
	head.Usher = version
	report := &Growth{Head: growthHead(head)}
	for _, s := range what {
		points, err := b.grow(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		report.Points = append(report.Points, points...)
	}
	return report, nil
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
		_, _ = fmt.Fprintf(b.progress, "%-16s %7d  ready after %6.2f s and %6.2f s of CPU, %6.1f MB, at most %6.1f MB\n",
			s.name, count, g.Ready, g.StartCPU, mega(g.Heap), mega(g.Peak))
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
	p, err := b.launch(ctx, filepath.Base(kubeconfig), cmd)
	if err != nil {
		stop()
		return nil, err
	}
	g := &grown{process: p, world: w, stop: func() { p.stop(); stop() }}
	if err = g.awaitReady(ctx, begin); err == nil {
		err = g.readMemory(ctx)
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

// costs measures one line on all servers, round by round, so that noise on the machine affects all sizes equally.
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
	for range b.rounds {
		for _, w := range all {
			if err := w.round(ctx); err != nil {
				return err
			}
		}
	}
	for i, g := range list {
		cell, err := all[i].cell(g.lines[line].review)
		if err != nil {
			return err
		}
		g.Costs = append(g.Costs, Cost{Line: g.lines[line].name, CPU: cell.CPU, Objects: cell.Objects})
		_, _ = fmt.Fprintf(b.progress, "%-16s %7d  %-26s CPU %8.1f µs, %7.0f objects\n", g.Subject, g.Count, g.lines[line].name, cell.CPU, cell.Objects)
	}
	return nil
}

// prepareLine posts the review once, checks the verdict, and prepares the rounds.
func (b *bench) prepareLine(ctx context.Context, g *grown, line growthLine) (*work, error) {
	conns, err := connect(ctx, g.Reviews, b.client, 1)
	if err != nil {
		return nil, err
	}
	answer, err := conns[0].post(requestBytes(line.review))
	first := slices.Clone(answer)
	closeAll(conns)
	if err != nil {
		return nil, err
	}
	if line.allows != strings.Contains(string(first), `"allowed":true`) {
		return nil, fmt.Errorf("allowed should be %v: %s", line.allows, first)
	}
	return b.prepare(ctx, g.process, line.review, first, cpuConnections)
}
