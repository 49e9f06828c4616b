package parallel

import (
	"sync/atomic"
	"testing"
)

// TestInOrder: results come in order whoever makes them first, no worker is used twice at a time, and none works when it is over.
func TestInOrder(t *testing.T) {
	const n = 200
	var busy [3]atomic.Bool
	var waits [n]chan struct{}
	for i := range waits {
		waits[i] = make(chan struct{})
	}
	do := func(w, i int) int {
		if !busy[w].CompareAndSwap(false, true) {
			t.Errorf("worker %d is used twice at a time", w)
		}
		if i%2 == 1 {
			close(waits[i])
		} else {
			<-waits[i+1] // an odd one is always made before the even one before it
		}
		busy[w].Store(false)
		return i
	}
	next := 0
	for i := range InOrder(n, []int{0, 1, 2}, do) {
		if i != next {
			t.Fatalf("%d, want %d", i, next)
		}
		next++
	}
	if next != n {
		t.Errorf("%d results, want %d", next, n)
	}
	var made atomic.Int32
	for range InOrder(n, []int{0, 1, 2}, func(int, int) int { return int(made.Add(1)) }) {
		break
	}
	if at := made.Load(); at > 12 || at != made.Load() {
		t.Errorf("%d results were made for one", at)
	}
}
