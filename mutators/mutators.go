// Package mutators holds the core suite's steps that change objects, one step per file, and the ordered lists of them.
package mutators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// Pods returns the core suite's mutators of pods on CREATE. The two change different fields; their order is that of the
// walk-through.
func Pods(policy *config.Policy, ask admit.Questions) []admit.Mutator[admit.Pod] {
	return []admit.Mutator[admit.Pod]{
		environment(policy.Env),
		lifespan(policy.Lifespan),
		labelDefaults(policy.LabelDefaults, ask),
		requestsFromLimits(policy.RequestsFromLimits, ask),
	}
}

// Nodes returns the core suite's mutators of node status updates. There must be only one: two amplifiers on one node
// would compound.
func Nodes(policy *config.Policy) []admit.Mutator[admit.Node] {
	return []admit.Mutator[admit.Node]{
		overcommit(policy.Overcommit),
	}
}
