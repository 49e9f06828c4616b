// Package seed makes random tests repeatable.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Value returns USHER_SEED or, without it, the time: runs differ, and a failure can be repeated.
func Value(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("USHER_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("USHER_SEED=%s: must be a number", text)
	}
	return value
}

// Random returns a source of random numbers. If the test fails, it prints the seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	value := Value(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("USHER_SEED=%d repeats it", value)
		}
	})
	return rand.New(rand.NewPCG(value, value))
}
