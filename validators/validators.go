// Package validators holds the core suite's checks, one check per file, and the lists of them.
package validators

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// PodOperations returns the operations on pods that the validators judge under a policy: updates only if a section of
// the policy has rules for them.
func PodOperations(policy *config.Policy) []admissionv1.Operation {
	if len(policy.LabelRules)+len(policy.ImageRules)+len(policy.Sidecars) > 0 || policy.NodeSelector != nil {
		return []admissionv1.Operation{admissionv1.Create, admissionv1.Update}
	}
	return []admissionv1.Operation{admissionv1.Create}
}

// EphemeralOperations returns the operations on the ephemeral containers of pods that the validators judge under a
// policy.
func EphemeralOperations(policy *config.Policy) []admissionv1.Operation {
	if len(policy.ImageRules) > 0 {
		return []admissionv1.Operation{admissionv1.Update}
	}
	return nil
}

// Pods returns the core suite's validators of pods. All of them run; their order is the order of the messages. Each
// judges only the operations that concern it.
func Pods(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		deniedNames(policy.Names),
		labelRules(policy.LabelRules, ask),
		nodeSelectorLimits(policy.NodeSelector, changes(policy, "node-selector"), ask),
		sidecarsPresent(policy.Sidecars, ask),
		imageRules(policy.ImageRules, ask),
	}
}

// WorkloadOperations returns the operations on workloads that the validators judge under a policy.
func WorkloadOperations(policy *config.Policy) []admissionv1.Operation {
	if policy.LabelRules.ForWorkloads() {
		return []admissionv1.Operation{admissionv1.Create, admissionv1.Update}
	}
	return nil
}

// Workloads returns the core suite's validators of workloads, which judge the templates of their pods.
func Workloads(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Workload] {
	return []admit.Validator[admit.Workload]{
		templateLabelRules(policy.LabelRules, appliedDefaults(policy), ask),
	}
}

// Restrictions returns the core suite's validators of requests by users, for objects of any kind.
func Restrictions(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		restrictions(policy.Restrictions, ask),
	}
}

// NamespaceOperations returns the operations on Namespaces that the validators judge under a policy: the updates that
// could free a namespace of a restriction.
func NamespaceOperations(policy *config.Policy) []admissionv1.Operation {
	if len(policy.Restrictions) == 0 {
		return nil
	}
	return []admissionv1.Operation{admissionv1.Update}
}

// Namespaces returns the core suite's validators of changes of Namespaces. called selects the namespaces for which the
// API server calls usher.
func Namespaces(policy *config.Policy, called labels.Selector) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		restrictionsKept(policy.Restrictions, called),
	}
}

// Objects returns the core suite's validators of objects of any kind, for the requests that rules of the policy name.
func Objects(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		rules(policy.Rules, ask),
	}
}

// changes reports whether a mutator of the policy changes objects.
func changes(policy *config.Policy, step string) bool {
	mode := policy.Modes.Of(step)
	return mode != admit.Off && mode != admit.DryRun
}
