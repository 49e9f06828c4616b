//go:build race

package expression

// raceDetector is set if the tests run with the race detector, which makes long evaluations ten times as long.
const raceDetector = true
