// Package mutators holds the steps that change objects, one step a file, and the ordered lists of them.
package mutators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// Pods are the core suite's steps on pods that are created. The two touch different fields: the order is that of the
// walk-through.
func Pods(policy *config.Policy) []admit.Mutator[admit.Pod] {
	return []admit.Mutator[admit.Pod]{
		environment(policy.Env),
		lifespan(policy.Lifespan),
	}
}

// Nodes are the core suite's steps on node status updates. There is one: two amplifiers on one node would compound.
func Nodes(policy *config.Policy) []admit.Mutator[admit.Node] {
	return []admit.Mutator[admit.Node]{
		overcommit(policy.Overcommit),
	}
}
