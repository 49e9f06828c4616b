//go:build race

package collections

// randomPods is the number of pods that TestHeldEqualsComponentHelpers compares. With the race detector, which finds
// nothing there and takes ten times as long, they are fewer.
const randomPods = 10_000
