//go:build !race

package expression

// raceDetector is set if the tests run with the race detector.
const raceDetector = false
