package main

import (
	"testing"

	"usher.dev/usher/test/promises"
)

// TestPromises runs the tests of test/promises: the goldens, and that the routes, the manifests and the pages agree.
func TestPromises(t *testing.T) { promises.House{}.Test(t) }

// FuzzHeartbeat: whatever is in a node, its status update passes.
func FuzzHeartbeat(f *testing.F) { promises.House{}.FuzzHeartbeat(f) }

// BenchmarkPlayground measures a keystroke in a pod of 20 KB.
func BenchmarkPlayground(b *testing.B) { promises.House{}.BenchmarkPlayground(b) }
