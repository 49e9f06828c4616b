// Package validators holds the core suite's checks, one check per file, and the lists of them.
package validators

import (
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/mutators/placement"
)

// Pods returns the core suite's validators of pods. All of them run; their order is the order of the messages.
func Pods(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		deniedNames(config.SectionOf[*Names](policy)),
		labelRules(config.SectionOf[LabelRules](policy), ask),
		nodeSelectorLimits(config.SectionOf[*placement.NodeSelector](policy), changes(policy, "node-selector"), ask),
		sidecarsPresent(config.SectionOf[injection.Sidecars](policy), placement.Applied(policy), ask),
		imageRules(config.SectionOf[ImageRules](policy), ask),
	}
}

// Workloads returns the core suite's validators of workloads, which judge the templates of their pods.
func Workloads(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Workload] {
	rules := config.SectionOf[LabelRules](policy)
	return []admit.Validator[admit.Workload]{
		templateLabelRules(rules, appliedDefaults(policy), ask),
		WorkloadsByPods(policy, ask, ofCore(rules)),
	}
}

// Requests returns the core suite's validators of requests by users, for objects of any kind.
func Requests(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		restrictions(config.SectionOf[Restrictions](policy), ask),
	}
}

// Objects returns the core suite's validators of objects of any kind, apart from rules in CEL, which package expression has.
func Objects(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		objectLabelRules(config.SectionOf[LabelRules](policy), ask),
	}
}

// Namespaces returns the core suite's validators of changes of Namespaces. called selects the namespaces for which the
// API server calls usher.
func Namespaces(policy *config.Policy, called labels.Selector) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		restrictionsKept(config.SectionOf[Restrictions](policy), called),
	}
}

// changes reports whether a mutator of the policy changes objects.
func changes(policy *config.Policy, step string) bool {
	mode := config.SectionOf[admit.Modes](policy).Of(step)
	return mode != admit.Off && mode != admit.DryRun
}
