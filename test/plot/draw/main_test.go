package main

import (
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// TestDraw reads the charts that the end-to-end module writes.
func TestDraw(t *testing.T) {
	var out strings.Builder
	if err := draw(strings.NewReader(harness.ReadFile(t, "../../e2e/throughput/testdata/charts.golden")), &out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<svg", "Pods created per second", "usher, core", "Written to etcd by nodes", "every 10 s, amplified"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the picture has no %q", text)
		}
	}
}

func TestDrawRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", `[{"Titel": "mistyped"}]`} {
		if err := draw(strings.NewReader(text), &strings.Builder{}); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}
