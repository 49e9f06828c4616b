package main

import (
	"context"
	"time"

	"usher.dev/usher/bench/report"
	"usher.dev/usher/test/reviews"
)

// work is one cell during its measurement.
type work struct {
	server  *process
	conns   []*connection
	request []byte
	check   func([]byte) error
	count   int  // reviews in a round
	scrape  heap // the cost of reading the heap
	rounds  []round
}

// round is the result of one round.
type round struct {
	perSecond, p50, p99, cpu, objects, bytes float64 // times in µs, cpu and allocations per review
}

// prepare opens the connections, warms up, and determines how many reviews a round needs.
func (b *bench) prepare(ctx context.Context, s *process, r reviews.Review, first []byte, n int) (*work, error) {
	conns, err := connect(ctx, s.Reviews, b.client, n)
	if err != nil {
		return nil, err
	}
	w := &work{server: s, conns: conns, request: requestBytes(r), check: like(first)}
	if w.count, err = w.calibrate(ctx, b.plan); err == nil {
		w.scrape, err = scrapeCost(ctx, s.Operations)
	}
	if err != nil {
		closeAll(conns)
	}
	return w, err
}

// calibrate doubles a burst until it lasts a quarter of a round, and returns the reviews of a round. This is also the
// warm-up.
func (w *work) calibrate(ctx context.Context, p plan) (int, error) {
	for n := len(w.conns); ; n *= 2 {
		took, _, err := burst(ctx, w.conns, n, w.request, w.check)
		if err != nil {
			return 0, err
		}
		if took >= p.cell/4 {
			count := float64(n) * float64(p.cell) / float64(took)
			return max(int(report.Rounded(count, 2)), p.fewest*len(w.conns), 10), nil
		}
	}
}

// round measures one round.
func (w *work) round(ctx context.Context) error {
	heapBefore, err := readHeap(ctx, w.server.Operations)
	if err != nil {
		return err
	}
	cpuBefore, err := cpuTime(w.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	took, latencies, err := burst(ctx, w.conns, w.count, w.request, w.check)
	if err != nil {
		return err
	}
	cpuAfter, err := cpuTime(w.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	heapAfter, err := readHeap(ctx, w.server.Operations)
	if err != nil {
		return err
	}
	n, used := float64(w.count), heapAfter.minus(heapBefore).minus(w.scrape)
	w.rounds = append(w.rounds, round{
		perSecond: n / took.Seconds(), cpu: micros(cpuAfter-cpuBefore) / n, objects: used.objects / n, bytes: used.bytes / n,
		p50: micros(report.Percentile(latencies, 50)), p99: micros(report.Percentile(latencies, 99)),
	})
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// cell summarizes the rounds.
func (w *work) cell(r reviews.Review) (Cell, error) {
	peak, err := peakMemory(w.server.cmd.Process.Pid)
	c := Cell{
		Review: r.Name, Bytes: len(r.Body), Server: w.server.name, Connections: len(w.conns), Reviews: w.count,
		PerSecond:  report.MedianOf(w.rounds, func(r round) float64 { return r.perSecond }),
		P50:        report.MedianOf(w.rounds, func(r round) float64 { return r.p50 }),
		P99:        report.MedianOf(w.rounds, func(r round) float64 { return r.p99 }),
		Objects:    report.MedianOf(w.rounds, func(r round) float64 { return r.objects }),
		Allocated:  report.MedianOf(w.rounds, func(r round) float64 { return r.bytes }),
		PeakMemory: peak,
	}
	for _, r := range w.rounds {
		c.CPURounds = append(c.CPURounds, report.Rounded(r.cpu, 4))
	}
	c.CPU = report.Median(c.CPURounds)
	return c, err
}
