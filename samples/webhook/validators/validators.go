// Package validators checks objects as they would be stored, one rule a file.
package validators

import (
	corev1 "k8s.io/api/core/v1"

	"example.com/webhook/handlers"
)

// Pods are the checks of new pods.
var Pods = []handlers.Step[corev1.Pod]{names}
