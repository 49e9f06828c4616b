// Package validators holds the core suite's checks, one check per file, and the lists of them.
package validators

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/mutators/placement"
)

// PodOperations returns the operations on pods that the validators judge under a policy: updates only if a section of
// the policy has rules for them.
func PodOperations(policy *config.Policy) []admissionv1.Operation {
	if len(config.SectionOf[LabelRules](policy))+len(config.SectionOf[ImageRules](policy))+len(config.SectionOf[injection.Sidecars](policy)) > 0 ||
		config.SectionOf[*placement.NodeSelector](policy) != nil {
		return []admissionv1.Operation{admissionv1.Create, admissionv1.Update}
	}
	return []admissionv1.Operation{admissionv1.Create}
}

// EphemeralOperations returns the operations on the ephemeral containers of pods that the validators judge under a
// policy.
func EphemeralOperations(policy *config.Policy) []admissionv1.Operation {
	if len(config.SectionOf[ImageRules](policy)) > 0 {
		return []admissionv1.Operation{admissionv1.Update}
	}
	return nil
}

// Pods returns the core suite's validators of pods. All of them run; their order is the order of the messages. Each
// judges only the operations that concern it.
func Pods(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		deniedNames(config.SectionOf[*Names](policy)),
		labelRules(config.SectionOf[LabelRules](policy), ask),
		nodeSelectorLimits(config.SectionOf[*placement.NodeSelector](policy), changes(policy, "node-selector"), ask),
		sidecarsPresent(config.SectionOf[injection.Sidecars](policy), ask),
		imageRules(config.SectionOf[ImageRules](policy), ask),
	}
}

// WorkloadOperations returns the operations on workloads that the validators judge under a policy.
func WorkloadOperations(policy *config.Policy) []admissionv1.Operation {
	if config.SectionOf[LabelRules](policy).ForWorkloads() {
		return []admissionv1.Operation{admissionv1.Create, admissionv1.Update}
	}
	return nil
}

// Workloads returns the core suite's validators of workloads, which judge the templates of their pods.
func Workloads(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Workload] {
	return []admit.Validator[admit.Workload]{
		templateLabelRules(config.SectionOf[LabelRules](policy), appliedDefaults(policy), ask),
	}
}

// Requests returns the core suite's validators of requests by users, for objects of any kind.
func Requests(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		restrictions(config.SectionOf[Restrictions](policy), ask),
	}
}

// NamespaceOperations returns the operations on Namespaces that the validators judge under a policy: the updates that
// could free a namespace of a restriction.
func NamespaceOperations(policy *config.Policy) []admissionv1.Operation {
	if len(config.SectionOf[Restrictions](policy)) == 0 {
		return nil
	}
	return []admissionv1.Operation{admissionv1.Update}
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
