// Package cluster makes tables of what usher costs in the path of a real API server. test/e2e/throughput measures it: a program
// of another module, whose Kubernetes is not usher's. It prints a line for each round.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"usher.dev/usher/bench/report"
)

// runner is the built test/e2e/throughput.
const runner = "bin/throughput"

// The two runs share a page.
var podsPlace, nodesPlace = placeOf("cluster"), placeOf("nodes")

func placeOf(run string) report.Place {
	return report.Place{Data: "performance-" + run + ".json", Page: "performance-cluster.md",
		Begins: "<!-- begin " + run + " -->", Ends: "<!-- end " + run + " -->"}
}

// Command is `load cluster`: what creating pods costs.
func Command(ctx context.Context, args []string, out, progress io.Writer) error {
	return report.Run[Report]{Place: podsPlace, Measure: measureWith("-nodes=false"), Section: podSection}.Command(ctx, flag.NewFlagSet("load cluster", flag.ContinueOnError), args, out, progress)
}

// NodesCommand is `load nodes`: what the status of amplified nodes costs.
func NodesCommand(ctx context.Context, args []string, out, progress io.Writer) error {
	return report.Run[Report]{Place: nodesPlace, Measure: measureWith("-nodes=true"), Section: nodeSection}.Command(ctx, flag.NewFlagSet("load nodes", flag.ContinueOnError), args, out, progress)
}

func measureWith(what string) func(context.Context, report.Options, io.Writer) (*Report, error) {
	return func(ctx context.Context, o report.Options, progress io.Writer) (*Report, error) {
		return measure(ctx, what, o, progress)
	}
}

// measure runs the program, which stops its servers before it ends, and reads what it prints.
func measure(ctx context.Context, what string, o report.Options, progress io.Writer) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	file, err := filepath.Abs(runner)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, file, fmt.Sprintf("-quick=%v", o.Quick), what)
	cmd.Stderr = progress
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches it from here, once
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	rounds, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: `make load ARGS=cluster` builds it", err)
	}
	r, failed := read(rounds, report.Describe(ctx, 0, o.Quick), progress)
	if failed != nil {
		cancel()
	}
	return r, errors.Join(failed, cmd.Wait())
}

// read sums up rounds until the end of the input. With an error it returns what was before it, or nil if there was no round.
func read(in io.Reader, head report.Head, progress io.Writer) (*Report, error) {
	r := &Report{Head: head}
	var pods []podRound
	var nodes []nodeRound
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	var failed error
	for {
		var line record
		if failed = decoder.Decode(&line); failed != nil {
			break
		}
		switch {
		case line.Run != nil:
			r.Kubernetes, r.Rounds, r.PodBytes, r.NodeBytes = line.Run.Kubernetes, line.Run.Rounds, line.Run.PodBytes, line.Run.NodeBytes
		case line.Pods != nil:
			slices.Sort(line.Pods.Latencies)
			pods = append(pods, *line.Pods)
			_, _ = fmt.Fprintln(progress, podsOf(pods[len(pods)-1:]))
		case line.Nodes != nil:
			slices.Sort(line.Nodes.Latencies)
			nodes = append(nodes, *line.Nodes)
			_, _ = fmt.Fprintln(progress, nodesOf(nodes[len(nodes)-1:]))
		}
	}
	if errors.Is(failed, io.EOF) {
		failed = nil
	}
	for _, rounds := range groups(pods, func(r podRound) any { return [2]any{r.Clients, r.Way} }) {
		r.Pods = append(r.Pods, podsOf(rounds))
	}
	for _, rounds := range groups(nodes, func(r nodeRound) any { return [2]any{r.Nodes, r.Mode} }) {
		r.Nodes = append(r.Nodes, nodesOf(rounds))
	}
	if len(r.Pods)+len(r.Nodes) == 0 {
		r = nil
	}
	return r, failed
}
