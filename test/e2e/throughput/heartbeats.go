package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
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
	statuses, leases float64         // written per second
	latencies        []time.Duration // of the statuses, sorted
	used             usage           // per second
}

// reportNodes measures one round at the real rate.
func (w *world) reportNodes(ctx context.Context, mode string, nodes int, window time.Duration) (r nodeRound, err error) {
	w.serial++
	plan := schedule(w.nodes[mode == amplified][:nodes], mode, window, w.serial)
	if mode == amplified && nodes > 0 {
		if err := w.isAmplified(ctx); err != nil {
			return r, err
		}
	}
	pid := pidOf(w.core)()
	before, err := w.meter.read(ctx, pid)
	if err != nil {
		return r, err
	}
	began := time.Now()
	counts, latencies, err := carryOut(ctx, plan, window)
	if err != nil {
		return r, err
	}
	seconds := time.Since(began).Seconds()
	after, err := w.meter.read(ctx, pid)
	if err != nil {
		return r, err
	}
	r = nodeRound{float64(counts[status]) / seconds, float64(counts[lease]) / seconds, latencies, after.since(before, seconds)}
	return r, forget(ctx, w.cluster.EtcdURL())
}

// carryOut makes the writes, each at its time, and returns when the window is over and all are answered.
func carryOut(ctx context.Context, plan []write, window time.Duration) (counts map[string]int, latencies []time.Duration, err error) {
	var mu sync.Mutex
	var running sync.WaitGroup
	counts = map[string]int{}
	began := time.Now()
	for _, one := range plan {
		pause(ctx, one.at-time.Since(began))
		running.Go(func() {
			sent := time.Now()
			failure := one.do(ctx)
			mu.Lock()
			defer mu.Unlock()
			if failure != nil {
				err = fmt.Errorf("%s of node %s: %w", one.kind, one.node.name, failure)
				return
			}
			counts[one.kind]++
			if one.kind == status {
				latencies = append(latencies, time.Since(sent))
			}
		})
	}
	pause(ctx, window-time.Since(began))
	running.Wait()
	slices.Sort(latencies)
	return counts, latencies, err
}

// isAmplified checks that usher changes what the nodes report.
func (w *world) isAmplified(ctx context.Context) error {
	stored, err := w.admin.Get(ctx, "/api/v1/nodes/"+nodeName(0, true))
	if err == nil && stored.String("status", "allocatable", "cpu") != "31800m" {
		err = fmt.Errorf("node %s has %v CPUs: usher has not amplified it", nodeName(0, true), stored.At("status", "allocatable", "cpu"))
	}
	return err
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
