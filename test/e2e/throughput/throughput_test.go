package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's own binary be the constant webhook, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "constant" {
		_ = serveConstant(os.Args[2:])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestSmallRun runs all of it in a world of its own, too short to say anything about time.
func TestSmallRun(t *testing.T) {
	p := plan{rounds: 1, clients: []int{1, 4}, nodes: []int{0, 6}, warm: 100 * time.Millisecond, burst: 300 * time.Millisecond, window: 2 * time.Second}
	r, err := measure(t.Context(), p, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Pods) != 2*len(wayNames) || len(r.Nodes) != 1+len(modes) {
		t.Errorf("%d cells of pods, %d of nodes", len(r.Pods), len(r.Nodes))
	}
	for _, c := range r.Pods {
		if c.Created == 0 || c.Failed > 0 || c.Used.APIServer <= 0 || c.Used.Puts < 0.9 || (c.Used.Webhook > 0) != (c.Way != none) {
			t.Errorf("%+v", c)
		}
	}
	for _, c := range r.Nodes {
		if (c.Leases > 0) != (c.Nodes > 0) || c.Mode != seldom && c.Statuses == 0 {
			t.Errorf("%+v", c)
		}
	}
	file := filepath.Join(t.TempDir(), "data.json")
	if err := writeReport(file, r); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"table", "charts"} {
		var out strings.Builder
		if err := command(t.Context(), []string{word, file}, &out, io.Discard); err != nil || out.Len() == 0 {
			t.Errorf("%s: %v", word, err)
		}
	}
}
