// Package mutators holds the core suite's steps that change objects, one step per file, and the ordered lists of them.
package mutators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/mutators/labelling"
	"usher.dev/usher/mutators/placement"
)

// Pods returns the core suite's mutators of pods. label-defaults is before sidecars, which selects pods by labels, and
// sidecars is before environment, so that in the first run injected containers get the policy's variables. node-selector
// is after all that set resources or tolerations: whether a pod is BestEffort depends on the first, and it drops tolerations of
// others that a default one covers. Sidecars knows the operating system that it will select.
func Pods(policy *config.Policy, ask admit.Questions) []admit.Mutator[admit.Pod] {
	return []admit.Mutator[admit.Pod]{
		labelDefaults(config.SectionOf[labelling.Defaults](policy), ask),
		sidecars(config.SectionOf[injection.Sidecars](policy), placement.Applied(policy), ask),
		environment(config.SectionOf[Env](policy)),
		lifespan(config.SectionOf[*Lifespan](policy)),
		requestsFromLimits(config.SectionOf[RequestsFromLimits](policy), ask),
		nodeSelector(config.SectionOf[*placement.NodeSelector](policy), ask),
	}
}

// Nodes returns the core suite's mutators of node status updates. There must be only one: two amplifiers on one node
// would compound.
func Nodes(policy *config.Policy) []admit.Mutator[admit.Node] {
	return []admit.Mutator[admit.Node]{
		overcommit(config.SectionOf[*amplify.Overcommit](policy)),
	}
}
