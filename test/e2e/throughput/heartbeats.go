package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// write is something that a node writes at some time of a round.
type write struct {
	at   time.Duration
	node *node
	do   func(context.Context) error
	kind string // status or lease
}

const status, lease = "status", "lease"

// schedule returns what nodes write in a window of time, in order. Nodes are spread evenly over a heartbeat; of those that
// report seldom, each round has others.
func schedule(nodes []*node, mode string, window time.Duration, round int) (all []write) {
	for i, one := range nodes {
		offset := heartbeat * time.Duration(i) / time.Duration(len(nodes))
		all = append(all, write{offset, one, one.renew, lease})
		if mode == seldom && (i+round)%reportEvery != 0 {
			continue
		}
		report := func(ctx context.Context) error { return one.report(ctx, mode == amplified) }
		all = append(all, write{(offset + heartbeat/2) % heartbeat, one, report, status})
	}
	all = slices.DeleteFunc(all, func(w write) bool { return w.at >= window })
	slices.SortStableFunc(all, func(a, b write) int { return int(a.at - b.at) })
	return all
}

// nodeRound is one round of a mode with some nodes.
type nodeRound struct {
	Mode  string `json:"mode"`
	Nodes int    `json:"nodes"`
	result
	Statuses int     `json:"statuses"`
	Leases   int     `json:"leases"`
	Skipped  float64 `json:"skipped"` // statuses that were stored without usher, because the API server had no answer in time
}

// reportNodes measures one round at the real rate.
func (w *world) reportNodes(ctx context.Context, mode string, nodes int, window time.Duration) (r nodeRound, err error) {
	w.serial++
	plan := schedule(w.nodes[mode == amplified][:nodes], mode, window, w.serial)
	if mode == amplified {
		if err := w.awaitAmplified(ctx); err != nil {
			return r, err
		}
	}
	skipped, err := w.failedOpen(ctx)
	if err != nil {
		return r, err
	}
	pid := pidOf(w.core)()
	before, err := w.meter.read(ctx, pid)
	if err != nil {
		return r, err
	}
	r = carryOut(ctx, plan, window)
	r.Mode, r.Nodes = mode, nodes
	after, err := w.meter.read(ctx, pid)
	if err != nil {
		return r, err
	}
	r.Used = after.since(before, r.Seconds)
	if r.Failed > len(plan)/2 {
		return r, fmt.Errorf("%d nodes, %s: %d of %d writes failed: %s", nodes, mode, r.Failed, len(plan), r.Example)
	}
	if r.Skipped, err = w.failedOpen(ctx); err != nil {
		return r, err
	}
	r.Skipped -= skipped
	return r, forget(ctx, w.cluster.EtcdURL())
}

// carryOut makes the writes, each at its time, and returns when the window is over and all are answered.
func carryOut(ctx context.Context, plan []write, window time.Duration) (all nodeRound) {
	var mu sync.Mutex
	var running sync.WaitGroup
	began := time.Now()
	for _, one := range plan {
		pause(ctx, one.at-time.Since(began))
		running.Go(func() {
			sent := time.Now()
			err := one.do(ctx)
			took := time.Since(sent)
			mu.Lock()
			defer mu.Unlock()
			all.add(one, took, err)
		})
	}
	pause(ctx, window-time.Since(began))
	running.Wait()
	all.Seconds = time.Since(began).Seconds()
	return all
}

// add adds a write that was answered. The latencies are those of the statuses.
func (r *nodeRound) add(one write, took time.Duration, err error) {
	switch {
	case err != nil:
		r.result.add(took, fmt.Errorf("%s of node %s: %w", one.kind, one.node.name, err))
	case one.kind == status:
		r.Statuses++
		r.result.add(took, nil)
	default:
		r.Leases++
	}
}

// awaitAmplified lets a node report until usher has changed what it reports.
func (w *world) awaitAmplified(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	one := w.nodes[true][0]
	return kubetest.Eventually(ctx, func(ctx context.Context) error {
		if err := one.report(ctx, true); err != nil {
			return err
		}
		stored, err := w.admin.Get(ctx, "/api/v1/nodes/"+one.name)
		if err == nil && stored.String("status", "allocatable", "cpu") != "31800m" {
			err = fmt.Errorf("node %s has %v CPUs: usher has not amplified it", one.name, stored.At("status", "allocatable", "cpu"))
		}
		return err
	})
}

var failOpenCounter = regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{.*\} ([0-9.e+]+)$`)

// failedOpen returns how many calls the API server has gone on without so far.
func (w *world) failedOpen(ctx context.Context) (sum float64, err error) {
	text, err := w.admin.Text(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for _, counter := range failOpenCounter.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(counter[1], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func pause(ctx context.Context, long time.Duration) {
	if long <= 0 {
		return
	}
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
}
