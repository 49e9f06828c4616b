package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
)

// cpuTime returns the CPU time that a process has used so far, user and system. The scheduler's statistics of each
// thread are in nanoseconds; threads of a Go server do not end, so the sum never decreases. Kernels without them count
// ticks of 10 ms.
func cpuTime(pid int) (sum time.Duration, err error) {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		stat, err := thread.Schedstat()
		if err != nil {
			return cpuTicks(pid)
		}
		sum += time.Duration(stat.RunningNanoseconds)
	}
	return sum, nil
}

// cpuTicks returns the CPU time in hundredths of a second.
func cpuTicks(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// peakMemory returns the peak resident memory of a process, in bytes.
func peakMemory(pid int) (int64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	return int64(status.VmHWM), err
}

// get returns a page of an operations listener.
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

// gauge returns the value of a metric without labels in a page.
func gauge(page []byte, name string) (float64, error) {
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(page)
	if found == nil {
		return 0, fmt.Errorf("/metrics has no %s: %.200s", name, page)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// heap counts what a Go process has allocated so far.
type heap struct {
	objects, bytes float64
}

func (h heap) minus(o heap) heap { return heap{h.objects - o.objects, h.bytes - o.bytes} }

// readHeap reads the heap from the metrics of a server's operations listener.
func readHeap(ctx context.Context, operations string) (h heap, err error) {
	_, page, err := get(ctx, operations, "/metrics")
	if err != nil {
		return h, err
	}
	if h.objects, err = gauge(page, "go_memstats_mallocs_total"); err == nil {
		h.bytes, err = gauge(page, "go_memstats_alloc_bytes_total")
	}
	return h, err
}

// scrapeCost returns what a server allocates for one call of readHeap.
func scrapeCost(ctx context.Context, operations string) (least heap, err error) {
	before, err := readHeap(ctx, operations)
	for i := 0; i < 4 && err == nil; i++ {
		var after heap
		if after, err = readHeap(ctx, operations); err != nil {
			break
		}
		if cost := after.minus(before); i == 0 || cost.objects < least.objects {
			least = cost
		}
		before = after
	}
	return least, err
}
