package handlers

import (
	"bytes"
	"strings"

	"usher.dev/usher/admit"
)

// CanaryAnnotation marks an object that `usherctl doctor --canary` sends as a dry run, to see whether usher is called. Whatever usher
// decides about it, its answer has the warning CanaryAnswer.
const CanaryAnnotation = "usher.dev/canary"

const canaryAnswer = "usher has answered this canary at "

// isCanary reports whether the request is the dry run of a canary.
func isCanary(r *admit.Request) bool {
	if !r.DryRun || r.Object == nil || !bytes.Contains(r.Object.Sent(), []byte(CanaryAnnotation)) {
		return false // without a handle of the annotations, which could change the order of a patch
	}
	_, marked := admit.MetaOf(r.Object.Root()).Annotation(CanaryAnnotation)
	return marked
}

// CanaryAnswer returns the warning with which the route of a path answers a canary.
func CanaryAnswer(path string) string { return canaryAnswer + path }

// CanaryPath returns the path in a warning that answers a canary.
func CanaryPath(warning string) (path string, is bool) {
	return strings.CutPrefix(warning, canaryAnswer)
}
