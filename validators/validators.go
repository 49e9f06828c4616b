// Package validators holds the core suite's checks, one check per file, and the lists of them.
package validators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// Pods returns the core suite's validators of pods on CREATE. All of them run; their order is the order of the
// messages.
func Pods(policy *config.Policy, _ admit.Questions) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		deniedNames(policy.Names),
	}
}
