// Package seed makes random tests repeatable.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Value returns USHER_SEED or, without it, the time: runs differ, and a failure can be repeated. If the test fails, it
// prints the seed.
func Value(t testing.TB) uint64 {
	t.Helper()
	value := uint64(time.Now().UnixNano())
	if text := os.Getenv("USHER_SEED"); text != "" {
		var err error
		if value, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("USHER_SEED=%s: must be a number", text)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("USHER_SEED=%d repeats it", value)
		}
	})
	return value
}

// Random returns a source of random numbers from the Value.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	value := Value(t)
	return rand.New(rand.NewPCG(value, value))
}

// Rounds returns n, or with the race detector a tenth of it: that finds races, which need few rounds, and the tests without it find the rest.
func Rounds(n int) int {
	if Race {
		return n / 10
	}
	return n
}
