package kubetest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns USHER_SEED or, without it, the time: runs differ, and a failure can be repeated. It prints the seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	value := uint64(time.Now().UnixNano())
	if text := os.Getenv("USHER_SEED"); text != "" {
		var err error
		if value, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("USHER_SEED=%s: must be a number", text)
		}
	}
	t.Logf("USHER_SEED=%d draws the same again", value)
	return value
}

// Random returns a source of random numbers, and prints its seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	value := Seed(t)
	return rand.New(rand.NewPCG(value, value))
}
