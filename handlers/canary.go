package handlers

import "strings"

// CanaryAnnotation marks an object that `usherctl doctor --canary` sends as a dry run, to see whether usher is called. Whatever usher
// decides about it, its answer has the warning CanaryAnswer.
const CanaryAnnotation = "usher.dev/canary"

const canaryAnswer = "usher has answered this canary at "

// CanaryAnswer returns the warning with which the route of a path answers a canary.
func CanaryAnswer(path string) string { return canaryAnswer + path }

// CanaryPath returns the path in a warning that answers a canary.
func CanaryPath(warning string) (path string, is bool) {
	return strings.CutPrefix(warning, canaryAnswer)
}
