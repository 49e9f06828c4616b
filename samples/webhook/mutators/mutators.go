// Package mutators changes objects, one rule a file. The API server may ask again about the result, so twice must be as once.
package mutators

import (
	corev1 "k8s.io/api/core/v1"

	"example.com/webhook/handlers"
)

// Pods are the steps for new pods, in their order: each sees what those before it changed.
var Pods = []handlers.Step[corev1.Pod]{lifespan, environment}

// Nodes are the steps for the status of nodes.
var Nodes = []handlers.Step[corev1.Node]{overcommit}
