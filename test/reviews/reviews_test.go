package reviews

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestSizes(t *testing.T) {
	want := map[string]int{ // in KB
		"2KB-pod": 2, "20KB-pod-changed": 20, "20KB-pod-unchanged": 20,
		"51KB-node-amplified": 51, "51KB-node-unchanged": 51, "220KB-pod": 220,
		"20KB-pod-1-of-10-profiles": 20, "20KB-pod-0-of-10-profiles": 20,
	}
	all := All()
	if len(all) != len(want) {
		t.Fatalf("%d reviews, want %d", len(all), len(want))
	}
	for _, r := range all {
		size := want[r.Name] << 10
		if off := float64(len(r.Body)-size) / float64(size); off < -0.05 || off > 0.05 {
			t.Errorf("%s has %d bytes: %.1f %% off", r.Name, len(r.Body), off*100)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, r.Body); err != nil || !bytes.Equal(compact.Bytes(), r.Body) {
			t.Errorf("%s is not compact JSON: %v", r.Name, err)
		}
	}
}

func TestAlwaysTheSame(t *testing.T) {
	again := All()
	for i, r := range All() {
		if !bytes.Equal(r.Body, again[i].Body) {
			t.Errorf("%s differs from one call to the next", r.Name)
		}
	}
}
