// Package validators has the suite's checks, one a file. This file is their lists.
package validators

import (
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/config"
)

// PodQuestions are what the colocation suite's checks of pods ask.
type PodQuestions struct {
	LabelRules   LabelRules
	RulesFrom    string // where the label rules stand, as namespace/name of a ConfigMap
	Reservations Reservations
	Nodes        NodeLabels
	Quotas       QuotaMembership
	Binding      *sections.Binding // who may bind pods to nodes; nil: everybody
	Admission    QuotaAdmission    // whether the pod fits into its quota
}

// ColocatedPods are the colocation suite's checks of pods that are created or updated, in the reference's order, but for evaluate-quota,
// which Koordinator runs after quota-meta: it commits, and so comes last.
func ColocatedPods(ask PodQuestions, skipPriority bool) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		reservePod(),
		qosPriority(skipPriority),
		quotaMeta(ask.Quotas),
		deviceResource(),
		requiredLabels(ask.RulesFrom, ask.LabelRules),
		topology(),
		reservationFit(ask.Reservations, ask.Nodes),
		nodeName(ask.Binding),
		bindingBypass(ask.Binding),
		evaluateQuota(ask.Admission),
	}
}

// PodStatuses are the checks of what a write of a pod's status changes beside it. quota-meta stands here only where quotas count.
func PodStatuses(ask PodQuestions) []admit.Validator[admit.Pod] {
	membership := quotaMeta(ask.Quotas)
	membership.Gate = "EnableQuotaAdmission"
	return []admit.Validator[admit.Pod]{
		membership,
		bindingBypass(ask.Binding),
		evaluateQuota(ask.Admission),
	}
}

// Bindings are the checks of who binds a pod to a node, and what changes with it.
func Bindings(policy *config.Policy, pods PodMeta) []admit.Validator[views.Binding] {
	return []admit.Validator[views.Binding]{
		binding(config.SectionOf[sections.Binding](policy), pods),
		bindingLabels(),
	}
}

// NodeQuestions are what the checks of nodes ask.
type NodeQuestions struct {
	SLOConfig SLOConfig
	SLORatios sections.SLORatios
	Requests  NodeRequests
}

// Nodes are the checks of nodes that are created or updated, but for their status.
func Nodes(policy *config.Policy, configMap types.NamespacedName, ask NodeQuestions) []admit.Validator[admit.Node] {
	return []admit.Validator[admit.Node]{
		amplificationRatio(config.SectionOf[sections.NodeAmplification](policy), ask.SLORatios, ask.Requests),
		sloConflict(configMap, ask.SLOConfig),
	}
}

// ConfigMaps are the checks of the SLO configuration.
func ConfigMaps(options SLOOptions, nodes AllNodes) []admit.Validator[views.ConfigMap] {
	return []admit.Validator[views.ConfigMap]{
		sloConfig(options, nodes),
	}
}

// Profiles are the checks of colocation profiles that are created or updated.
func Profiles(profiles func() (*profile.Set, error), classes priorityClasses) []admit.Validator[views.ColocationProfile] {
	return []admit.Validator[views.ColocationProfile]{
		colocationProfile(profiles, classes),
	}
}

// ReservationChecks are the checks of reservations that are created or updated.
func ReservationChecks() []admit.Validator[views.Reservation] {
	return []admit.Validator[views.Reservation]{
		reservation(),
	}
}

// ElasticQuotas are the checks of elastic quotas that are created, updated or deleted.
func ElasticQuotas(ask QuotaQuestions) []admit.Validator[views.ElasticQuota] {
	return []admit.Validator[views.ElasticQuota]{
		quotaRules(ask),
	}
}
