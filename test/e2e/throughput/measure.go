package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// plan lists what is measured: pods if there are clients, and nodes.
type plan struct {
	rounds  int
	clients []int
	nodes   []int
	warm    time.Duration // before each round of pods
	burst   time.Duration // a round of pods
	window  time.Duration // a round of nodes
}

// planFor returns the plan of a run.
func planFor(nodes, quick bool) plan {
	switch {
	case nodes && quick:
		return plan{rounds: 1, nodes: []int{0, 100, 500}, window: heartbeat / 2}
	case nodes:
		return plan{rounds: 3, nodes: []int{0, 100, 500, 1000, 2000}, window: heartbeat}
	case quick:
		return plan{rounds: 1, clients: []int{1, 32, 500}, warm: 300 * time.Millisecond, burst: 1500 * time.Millisecond}
	}
	return plan{rounds: 3, clients: []int{1, 8, 32, 128, 500}, warm: 500 * time.Millisecond, burst: 3 * time.Second}
}

// limit bounds a whole run.
const limit = time.Hour

// record is a line of the output: what is measured first, and then one round each. test/bench/cluster reads it.
type record struct {
	Run   *description `json:"run,omitempty"`
	Pods  *podRound    `json:"pods,omitempty"`
	Nodes *nodeRound   `json:"nodes,omitempty"`
}

type description struct {
	Kubernetes string `json:"kubernetes"`
	Rounds     int    `json:"rounds"`
	PodBytes   int    `json:"podBytes"`  // of the pod as it is posted
	NodeBytes  int    `json:"nodeBytes"` // of the node in JSON
}

// measure runs the plan in a world of its own, and hands over every round.
func measure(ctx context.Context, p plan, emit func(record) error) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	starting, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	w, err := start(starting, slices.Max(append(p.clients, 0)))
	if err != nil {
		return err
	}
	defer func() { _ = w.cluster.Stop() }()
	d, err := w.describe(ctx, p)
	if err == nil {
		err = emit(record{Run: d})
	}
	if err != nil {
		return err
	}
	if err := w.measurePods(ctx, p, emit); err != nil {
		return fmt.Errorf("%w\n%s", err, w.cluster.LogsOf(5, "usher", constantCore, constantBoth))
	}
	if err := w.measureNodes(ctx, p, emit); err != nil {
		return fmt.Errorf("%w\n%s", err, w.cluster.LogsOf(5, "usher"))
	}
	return nil
}

func (w *world) describe(ctx context.Context, p plan) (*description, error) {
	version, err := w.admin.Get(ctx, "/version")
	if err != nil {
		return nil, err
	}
	stored, err := nodeObject("plain-0", false)
	if err != nil {
		return nil, err
	}
	return &description{version.String("gitVersion"), p.rounds, len(w.pod.named("pod")), len(stored)}, nil
}

// measurePods measures each number of clients in rounds, in which all ways take turns. Each round begins with another way.
func (w *world) measurePods(ctx context.Context, p plan, emit func(record) error) error {
	for _, clients := range p.clients {
		for n := range p.rounds {
			for i := range w.ways {
				r, err := w.createPods(ctx, w.ways[(i+n)%len(w.ways)], clients, p)
				if err == nil {
					err = emit(record{Pods: &r})
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measureNodes measures each number of nodes in rounds, in which all modes take turns. Without nodes there is one mode.
func (w *world) measureNodes(ctx context.Context, p plan, emit func(record) error) error {
	for _, nodes := range p.nodes {
		if err := w.growNodes(ctx, nodes); err != nil {
			return err
		}
		turns := modes
		if nodes == 0 {
			turns = modes[:1]
		}
		for range p.rounds {
			for _, mode := range turns {
				r, err := w.reportNodes(ctx, mode, nodes, p.window)
				if err == nil {
					err = emit(record{Nodes: &r})
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
