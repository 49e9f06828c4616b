package admit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"usher.dev/usher/admit/document"
)

// TestDraw: known numbers, so that every release decides alike; a uniform spread; independent for each profile.
func TestDraw(t *testing.T) {
	for text, want := range map[string]int{"p/ns/ReplicaSet/web": drawByHand("p/ns/ReplicaSet/web"), "a///": drawByHand("a///")} {
		parts := strings.Split(text, "/")
		if got := (Origin{parts[1], parts[2], parts[3]}).Draw(parts[0]); got != want {
			t.Errorf("%s draws %d, want %d", text, got, want)
		}
	}
	const workloads = 20_000
	for _, profile := range []string{"p", "batch-profile"} {
		var below [101]int
		for i := range workloads {
			d := Origin{"ns", "ReplicaSet", fmt.Sprint("web-", i)}.Draw(profile)
			for percent := d + 1; percent <= 100; percent++ {
				below[percent]++
			}
		}
		for percent := range below {
			if share := float64(below[percent]) * 100 / workloads; math.Abs(share-float64(percent)) > 1.5 {
				t.Errorf("%s: %d%% takes %.2f%%", profile, percent, share)
			}
		}
	}
	both := 0
	for i := range workloads {
		w := Origin{"ns", "ReplicaSet", fmt.Sprint("web-", i)}
		if w.Draw("a") < 50 && w.Draw("b") < 50 {
			both++
		}
	}
	if share := float64(both) / workloads; math.Abs(share-0.25) > 0.02 {
		t.Errorf("two profiles of 50%% take %.3f of the workloads both", share)
	}
}

// drawByHand is FNV-1a as published by its authors.
func drawByHand(text string) int {
	h := uint64(14695981039346656037)
	for _, c := range []byte(text) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return int(h % 100)
}

// TestOrigins: which pods are of one workload.
func TestOrigins(t *testing.T) {
	owner := func(kind, name, more string) string {
		return `{"metadata":{"name":"n","generateName":"g-","ownerReferences":[{"kind":"Other","name":"x"},{"kind":"` + kind + `","name":"` + name + `","controller":true}]` + more + `}}`
	}
	for raw, want := range map[string]string{
		owner("ReplicaSet", "web-5d4f8", `,"labels":{"pod-template-hash":"5d4f8"}`): "{ns ReplicaSet web}",
		owner("ReplicaSet", "web-a-5d4f8", ``):                                      "{ns ReplicaSet web-a}",
		owner("ReplicaSet", "web-a", `,"labels":{"pod-template-hash":"other"}`):     "{ns ReplicaSet web}",
		owner("ReplicaSet", "web", ``):                                              "{ns ReplicaSet web}",
		owner("StatefulSet", "db-0", ``):                                            "{ns StatefulSet db-0}",
		`{"metadata":{"generateName":"g-"}}`:                                        "{ns Pod g-}",
		`{"metadata":{"name":"n"}}`:                                                 "{ns Pod n}",
	} {
		d, _ := document.Parse([]byte(raw))
		if got := fmt.Sprint(OriginOf("Pod", "ns", AsPod(d).Meta)); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
