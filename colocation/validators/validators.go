// Package validators has the suite's checks, one per file. This file has the lists of checks for each route.
package validators

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/config"
	core "usher.dev/usher/validators"
)

// pass says why a check has nothing against a request.
func pass(req *admit.Request, why string, names ...string) (field.ErrorList, error) {
	req.Explain(why, names...)
	return nil, nil
}

// PodQuestions holds the questions and settings of the checks of pods.
type PodQuestions struct {
	LabelRules   LabelRules
	RulesFrom    string // the ConfigMap of the label rules, as namespace/name
	Reservations Reservations
	Nodes        NodeLabels
	Quotas       QuotaMembership
	Selection    QuotaSelection    // which quotas pods may choose
	Binding      *sections.Binding // the users that may bind pods to nodes; nil: all users
	Admission    QuotaAdmission    // whether the pod fits into its quota
	Devices      quota.Devices     // what the devices that the pod claims count for there
}

// ColocatedPods returns the checks of pods that are created or updated, in the reference's order. Only evaluate-quota,
// which Koordinator runs after quota-meta, comes last, because it commits.
func ColocatedPods(ask PodQuestions, skipPriority bool) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		reservePod(),
		qosPriority(skipPriority),
		quotaMeta(ask.Quotas),
		quotaSelection(ask.Selection, ask.Quotas),
		deviceResource(),
		requiredLabels(ask.RulesFrom, ask.LabelRules),
		topology(),
		reservationFit(ask.Reservations, ask.Nodes),
		nodeName(ask.Binding),
		bindingBypass(ask.Binding),
		deviceClaimsKept(ask.Devices),
		evaluateQuota(ask.Admission),
	}
}

// Workloads returns the checks of objects with a pod template: the core suite's, for the pods of this suite. prioritize sets the
// priority that the API server gives a new pod.
func Workloads(policy *config.Policy, ask admit.Questions, prioritize func(*admit.Pod) error) []admit.Validator[admit.Workload] {
	return []admit.Validator[admit.Workload]{
		core.WorkloadsByPods(policy, ask, core.SuitePods{
			Needs: []string{api.CollectionPriorityClasses}, Fill: prioritize,
			NotJudged: "the room that quotas have when the pods are created, and their nodes",
		}),
	}
}

// PodStatuses returns the checks of what a write of a pod's status changes besides the status. quota-meta and
// quota-selection are listed only where quotas are evaluated.
func PodStatuses(ask PodQuestions) []admit.Validator[admit.Pod] {
	membership, selection := quotaMeta(ask.Quotas), quotaSelection(ask.Selection, ask.Quotas)
	membership.Gate, selection.Gate = api.GateEnableQuotaAdmission, api.GateEnableQuotaAdmission
	return []admit.Validator[admit.Pod]{
		membership,
		selection,
		bindingBypass(ask.Binding),
		deviceClaimsKept(ask.Devices),
		evaluateQuota(ask.Admission),
	}
}

// Bindings returns the checks of Bindings: the user, and the metadata that they change. counting says which annotations count for
// quotas.
func Bindings(policy *config.Policy, pods PodKeys, counting quota.Counting) []admit.Validator[views.Binding] {
	return []admit.Validator[views.Binding]{
		binding(config.SectionOf[*sections.Binding](policy), pods),
		bindingLabels(counting),
	}
}

// NodeQuestions holds the questions of the checks of nodes.
type NodeQuestions struct {
	SLOConfig SLOConfig
	SLORatios sections.SLORatios
	Requests  NodeRequests
}

// Nodes returns the checks of nodes that are created or updated, except for their status.
func Nodes(policy *config.Policy, configMap types.NamespacedName, ask NodeQuestions) []admit.Validator[admit.Node] {
	return []admit.Validator[admit.Node]{
		amplificationRatio(config.SectionOf[*sections.NodeAmplification](policy), ask.SLORatios, ask.Requests),
		sloConflict(configMap, ask.SLOConfig),
	}
}

// ConfigMaps returns the checks of the SLO configuration.
func ConfigMaps(options SLOOptions, nodes AllNodes) []admit.Validator[views.ConfigMap] {
	return []admit.Validator[views.ConfigMap]{sloConfig(options, nodes)}
}

// Profiles returns the checks of colocation profiles that are created or updated.
func Profiles(profiles func() (*profile.Set, error), classes priorityClasses) []admit.Validator[views.ColocationProfile] {
	return []admit.Validator[views.ColocationProfile]{colocationProfile(profiles, classes)}
}

// QuotaProfiles returns the checks of elastic quota profiles that are created or updated.
func QuotaProfiles() []admit.Validator[views.QuotaProfile] {
	return []admit.Validator[views.QuotaProfile]{quotaProfile()}
}

// ReservationChecks returns the checks of reservations that are created or updated.
func ReservationChecks() []admit.Validator[views.Reservation] {
	return []admit.Validator[views.Reservation]{reservation()}
}

// ElasticQuotas returns the checks of elastic quotas that are created, updated or deleted. quota-rules is last, because
// it commits.
func ElasticQuotas(ask QuotaQuestions) []admit.Validator[views.ElasticQuota] {
	return []admit.Validator[views.ElasticQuota]{
		quotaAuthority(ask),
		quotaRules(ask),
	}
}
