// Package validators holds the core suite's checks, one check per file, and the lists of them.
package validators

import (
	"k8s.io/apimachinery/pkg/labels"

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

// Restrictions returns the core suite's validators of requests by users, for objects of any kind.
func Restrictions(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		restrictions(policy.Restrictions, ask),
	}
}

// Namespaces returns the core suite's validators of changes of Namespaces. called selects the namespaces for which the
// API server calls usher.
func Namespaces(policy *config.Policy, called labels.Selector) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		restrictionsKept(policy.Restrictions, called),
	}
}
