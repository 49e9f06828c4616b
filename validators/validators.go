// Package validators holds the checks of objects, one check a file, and the lists of them.
package validators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// Pods are the core suite's checks of pods that are created. All run; their order is that of the messages.
func Pods(policy *config.Policy) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		deniedNames(policy.Names),
	}
}
