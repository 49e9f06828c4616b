package main

import (
	"encoding/json"
	"testing"
	"time"
)

func TestNodeIsAsLargeAsARealOne(t *testing.T) {
	for _, labelled := range []bool{true, false} {
		text, err := nodeObject("node-7", labelled)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) < nodeSize || len(text) > nodeSize*11/10 {
			t.Errorf("%d bytes", len(text))
		}
		var node struct {
			Metadata struct{ Labels map[string]string }
			Status   struct{ Images []struct{ Names []string } }
		}
		if err := json.Unmarshal(text, &node); err != nil {
			t.Fatal(err)
		}
		if (node.Metadata.Labels["admission-webhook"] == "enabled") != labelled {
			t.Errorf("labelled %v: %v", labelled, node.Metadata.Labels)
		}
		seen := map[string]bool{}
		for _, image := range node.Status.Images {
			if seen[image.Names[0]] {
				t.Fatalf("%s is there twice", image.Names[0])
			}
			seen[image.Names[0]] = true
		}
	}
}

func TestPodKeepsItsSize(t *testing.T) {
	pod, err := productionPod()
	if err != nil {
		t.Fatal(err)
	}
	if text := pod.named("web"); !json.Valid(text) || len(text) < 8<<10 || len(text) > 16<<10 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

// TestSchedule: kubelets renew leases every heartbeat, and report an unchanged status every 30th, each in another one.
func TestSchedule(t *testing.T) {
	nodes := make([]*node, 60)
	count := func(mode string, window time.Duration, round int) map[string]int {
		counts := map[string]int{}
		before := time.Duration(0)
		for _, w := range schedule(nodes, mode, window, round) {
			if w.at < before || w.at >= window {
				t.Fatalf("at %v after %v, window %v", w.at, before, window)
			}
			counts[w.kind]++
			before = w.at
		}
		return counts
	}
	for mode, want := range map[string]int{seldom: 2, often: 60, amplified: 60} {
		if got := count(mode, heartbeat, 3); got[status] != want || got[lease] != 60 {
			t.Errorf("%s: %v", mode, got)
		}
	}
	if got := count(often, heartbeat/2, 0); got[status] != 30 || got[lease] != 30 {
		t.Errorf("half a heartbeat: %v", got)
	}
	all := 0
	for round := range reportEvery {
		all += count(seldom, heartbeat, round)[status]
	}
	if all != len(nodes) {
		t.Errorf("in five minutes %d nodes reported", all)
	}
}

func TestStatusPatchIsJSON(t *testing.T) {
	for _, measured := range []bool{true, false} {
		if text := statusPatch(time.Now(), measured); !json.Valid([]byte(text)) {
			t.Error(text)
		}
	}
}
