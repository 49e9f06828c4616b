package growth

import (
	"testing"
)

// TestWantLinear: a square is told from a line.
func TestWantLinear(t *testing.T) {
	var sum int
	line := func(n int) func() {
		return func() {
			for i := range n {
				sum += i
			}
		}
	}
	square := func(n int) func() {
		return func() {
			for i := range n {
				for j := range n {
					sum += i ^ j
				}
			}
		}
	}
	WantLinear(t, 250_000, line)
	if times := compare(square(400), square(400*factor)); times <= most {
		t.Errorf("a square passes: %.0f times", times)
	}
}
