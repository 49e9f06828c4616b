package main

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden from what the code does")

// TestSmallRun runs all of it in a world of its own, too short to say anything about time.
func TestSmallRun(t *testing.T) {
	p := plan{rounds: 1, clients: []int{1, 4}, nodes: []int{0, 6}, warm: 100 * time.Millisecond, burst: 300 * time.Millisecond, window: 2 * time.Second}
	var all []record
	err := measure(t.Context(), p, func(r record) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := all[0].Run; len(all) != 1+2*len(wayNames)+1+len(modes) || d == nil || d.Kubernetes == "" || d.Rounds != 1 || d.PodBytes < 8<<10 || d.NodeBytes < nodeSize {
		t.Fatalf("%d lines, the first %+v", len(all), d)
	}
	for _, r := range all[1:] {
		if c := r.Pods; c != nil && (len(c.Latencies) == 0 || c.Failed > 0 || c.Used[apiServerCPU] <= 0 || c.Used["puts"] < 0.9 || (c.Used[webhookCPU] > 0) != (c.Way != none)) {
			t.Errorf("%+v", c)
		}
		if c := r.Nodes; c != nil && ((c.Leases > 0) != (c.Nodes > 0) || c.Mode != seldom && c.Statuses == 0) {
			t.Errorf("%+v", c)
		}
	}
}

// TestOutput: the golden, which test/bench/cluster reads, is what is printed of these rounds.
func TestOutput(t *testing.T) {
	pods := func(created int, used usage) record {
		var all result
		for i := range created {
			var own result
			own.add(time.Duration(i+1)*time.Millisecond, nil)
			all.join(own)
		}
		all.Seconds, all.Used = 1, used
		return record{Pods: &podRound{core, 5, all}}
	}
	refused, last := pods(2, usage{apiServerCPU: 2, "puts": 9}), pods(1, nil)
	for range 2 {
		refused.Pods.add(6*time.Second, errors.New(`500 InternalError: failed calling webhook: Post "https://usher/validate-pod?timeout=5s": context deadline exceeded`))
	}
	for range 2 {
		refused.Pods.add(2*time.Second, errors.New("refused"))
	}
	last.Pods.Way, last.Pods.Latencies[0] = both, 7*time.Millisecond
	nodes := nodeRound{Mode: amplified, Nodes: 9, Skipped: 2}
	one := &node{name: "amplified-0"}
	for range 6 {
		nodes.add(write{node: one, kind: status}, time.Millisecond, nil)
	}
	for range 8 {
		nodes.add(write{node: one, kind: lease}, time.Second, nil)
	}
	nodes.add(write{node: one, kind: lease}, time.Second, errors.New("late"))
	nodes.Seconds, nodes.Used = 2, usage{webhookCPU: 1.5, "growth": -8}
	var out strings.Builder
	lines := json.NewEncoder(&out)
	for _, r := range []record{{Run: &description{"v1", 3, 10, 20}}, pods(1, usage{apiServerCPU: 3, "puts": 1}), refused, pods(3, usage{apiServerCPU: 1, "puts": 2}), last, {Nodes: &nodes}} {
		if err := lines.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	const file = "testdata/rounds.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != out.String() {
		t.Errorf("%s differs; if it is meant, `go test ./throughput -run Output -update` rewrites it. got:\n%s", file, &out)
	}
}

func TestUsage(t *testing.T) {
	later := usage{apiServerCPU: 30, webhookCPU: 4, "growth": -2}
	if got, want := later.since(usage{apiServerCPU: 10}, 2), (usage{apiServerCPU: 10, webhookCPU: 2, "growth": -1}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	u, err := parseEtcd("etcd_mvcc_put_total 12\netcd_debugging_mvcc_total_put_size_in_bytes 1.5e+06\netcd_disk_wal_write_bytes_total 7\n" +
		"etcd_disk_wal_fsync_duration_seconds_count 8\netcd_mvcc_db_total_size_in_use_in_bytes 9\n")
	if want := (usage{"puts": 12, "putBytes": 1.5e6, "walBytes": 7, "syncs": 8, "growth": 9}); err != nil || !maps.Equal(u, want) {
		t.Errorf("%v: %v", u, err)
	}
	if _, err := parseEtcd("etcd_mvcc_put_total 12\n"); err == nil {
		t.Error("a missing metric passes")
	}
}
