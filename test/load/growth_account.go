package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

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
	g.Ready = rounded(time.Since(begin).Seconds(), 3)
	cpu, err := cpuTime(g.cmd.Process.Pid)
	g.StartCPU = rounded(cpu.Seconds(), 3)
	return err
}

// heapInUse finds the size of all objects on the heap in a page of metrics.
var heapInUse = regexp.MustCompile(`(?m)^go_memstats_heap_alloc_bytes (\S+)$`)

// readMemory sets the peak of the resident memory, and then the heap after two garbage collections.
func (g *grown) readMemory(ctx context.Context) (err error) {
	if g.Peak, err = peakMemory(g.cmd.Process.Pid); err != nil {
		return err
	}
	for _, path := range []string{"/debug/pprof/heap?gc=1", "/debug/pprof/heap?gc=1"} {
		if _, _, err := get(ctx, g.Operations, path); err != nil {
			return err
		}
	}
	_, text, err := get(ctx, g.Operations, "/metrics")
	if err != nil {
		return err
	}
	found := heapInUse.FindSubmatch(text)
	if found == nil {
		return fmt.Errorf("/metrics has no go_memstats_heap_alloc_bytes: %.200s", text)
	}
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	g.Heap = int64(bytes)
	return err
}

// get returns a page of the operations listener.
func get(ctx context.Context, address, path string) (code int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}
