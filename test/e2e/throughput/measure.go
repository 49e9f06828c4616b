package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// plan is what is measured.
type plan struct {
	rounds  int
	clients []int
	nodes   []int
	warm    time.Duration // before each round of pods
	burst   time.Duration // a round of pods
	window  time.Duration // a round of nodes
}

var fullPlan = plan{rounds: 3, clients: []int{1, 10, 100, 500}, nodes: []int{0, 100, 500, 1000, 2000},
	warm: 500 * time.Millisecond, burst: 3 * time.Second, window: heartbeat}

var quickPlan = plan{rounds: 1, clients: []int{1, 100}, nodes: []int{0, 100, 500},
	warm: 300 * time.Millisecond, burst: 1500 * time.Millisecond, window: heartbeat / 2}

// limit bounds a whole run.
const limit = time.Hour

// measure runs the plan in a world of its own. With an error it returns the results before it.
func measure(ctx context.Context, p plan, progress io.Writer) (*report, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	starting, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	w, err := start(starting, slices.Max(p.clients))
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.cluster.Stop() }()
	r, err := w.describe(ctx, p)
	if err != nil {
		return nil, err
	}
	if r.Pods, err = w.measurePods(ctx, p, progress); err != nil {
		return r, fmt.Errorf("%w\n%s", err, w.cluster.LogsOf(5, "usher", "constant"))
	}
	if r.Nodes, err = w.measureNodes(ctx, p, progress); err != nil {
		return r, fmt.Errorf("%w\n%s", err, w.cluster.LogsOf(5, "usher"))
	}
	return r, nil
}

// describe returns a report without results.
func (w *world) describe(ctx context.Context, p plan) (*report, error) {
	commit, err := w.cluster.RunProgram(ctx, "git", "describe", "--always", "--dirty")
	if err != nil {
		return nil, err
	}
	version, err := w.admin.Get(ctx, "/version")
	if err != nil {
		return nil, err
	}
	stored, err := nodeObject("plain-0", false)
	if err != nil {
		return nil, err
	}
	return &report{Date: time.Now().UTC().Format(time.RFC3339), Commit: strings.TrimSpace(commit), Go: runtime.Version(), CPU: cpuModel(),
		Cores: runtime.NumCPU(), Kubernetes: version.String("gitVersion"), Rounds: p.rounds,
		PodBytes: len(w.pod.named("pod")), NodeBytes: len(stored)}, nil
}

// cpuModel returns the name of the processor, or "".
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, after, _ := strings.Cut(string(text), "model name\t: ")
	name, _, _ := strings.Cut(after, "\n")
	return name
}

// measurePods measures each number of clients in rounds, in which all ways take turns. Each round begins with another way.
func (w *world) measurePods(ctx context.Context, p plan, progress io.Writer) (cells []podCell, err error) {
	for _, clients := range p.clients {
		rounds := map[string][]podRound{}
		for n := range p.rounds {
			for i := range w.ways {
				of := w.ways[(i+n)%len(w.ways)]
				r, err := w.createPods(ctx, of, clients, p)
				if err != nil {
					return cells, err
				}
				rounds[of.name] = append(rounds[of.name], r)
			}
		}
		for _, of := range w.ways {
			cell := podsOf(of.name, clients, rounds[of.name])
			fmt.Fprintln(progress, cell)
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// measureNodes measures each number of nodes in rounds, in which all modes take turns. Without nodes there is one mode.
func (w *world) measureNodes(ctx context.Context, p plan, progress io.Writer) (cells []nodeCell, err error) {
	for _, nodes := range p.nodes {
		if err := w.growNodes(ctx, nodes); err != nil {
			return cells, err
		}
		turns := modes
		if nodes == 0 {
			turns = modes[:1]
		}
		rounds := map[string][]nodeRound{}
		for range p.rounds {
			for _, mode := range turns {
				r, err := w.reportNodes(ctx, mode, nodes, p.window)
				if err != nil {
					return cells, err
				}
				rounds[mode] = append(rounds[mode], r)
			}
		}
		for _, mode := range turns {
			cell := nodesOf(mode, nodes, rounds[mode])
			fmt.Fprintln(progress, cell)
			cells = append(cells, cell)
		}
	}
	return cells, nil
}
