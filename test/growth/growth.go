// Package growth tells work that grows with its input from work that grows with the square of it, by doing both side by side.
package growth

import (
	"syscall"
	"testing"
	"time"
)

const (
	rounds = 5
	factor = 32
	most   = 12 * factor // far more than sorting and caches add, far less than factor*factor
)

// WantLinear fails the test if work on 32 times the input costs more than 384 times the processor time. prepare makes an input of a
// size, and returns the work on it.
func WantLinear(t *testing.T, size int, prepare func(size int) (work func())) {
	t.Helper()
	if times := compare(prepare(size), prepare(factor*size)); times > most {
		t.Errorf("%d times the input costs %.0f times as much", factor, times)
	}
}

// compare returns how many times as much as little much costs. The best of several rounds counts, since a busy machine only adds.
func compare(little, much func()) float64 {
	return float64(best(much)) / float64(best(little))
}

func best(work func()) time.Duration {
	least := time.Duration(1<<63 - 1)
	for range rounds {
		start := spent()
		work()
		least = min(least, max(spent()-start, 10*time.Microsecond))
	}
	return least
}

// spent is the processor time of this process so far.
func spent() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
