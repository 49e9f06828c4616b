//go:build !race

package collections

// randomPods is the number of pods that TestHeldEqualsComponentHelpers compares.
const randomPods = 100_000
