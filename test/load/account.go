package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuTime returns the CPU time that a process has used so far, user and system. The scheduler's statistics of each
// thread are in nanoseconds; threads of a Go server do not end, so the sum never decreases. Kernels without them count
// ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return cpuTicks(pid)
	}
	var sum time.Duration
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			return 0, err
		}
		onCPU, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(onCPU, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// cpuTicks returns utime + stime of /proc/PID/stat, in hundredths of a second.
func cpuTicks(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from field 3 on
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

// peakMemory returns the peak resident memory of a process, in bytes.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}

// heap is what a Go process has allocated so far.
type heap struct {
	objects, bytes float64
}

func (h heap) minus(o heap) heap { return heap{h.objects - o.objects, h.bytes - o.bytes} }

// readHeap reads the heap from the metrics of a server's operations listener.
func readHeap(ctx context.Context, operations string) (h heap, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+operations+"/metrics", nil)
	if err != nil {
		return h, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return h, err
	}
	defer func() { _ = response.Body.Close() }()
	found := 0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		into := map[string]*float64{"go_memstats_mallocs_total": &h.objects, "go_memstats_alloc_bytes_total": &h.bytes}[name]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseFloat(value, 64); err != nil {
			return h, err
		}
		found++
	}
	if found != 2 {
		return h, fmt.Errorf("http://%s/metrics: %s, without go_memstats_mallocs_total and go_memstats_alloc_bytes_total", operations, response.Status)
	}
	return h, nil
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
