// Package api has the keys, the kinds and the derived values that usher shares with Koordinator.
package api

import corev1 "k8s.io/api/core/v1"

// Labels of pods. A reservation carries LabelQoSClass and LabelPriority too.
const (
	// LabelQoSClass is the Koordinator QoS class of a pod, see QoSClass.
	LabelQoSClass = "koordinator.sh/qosClass"
	// LabelPriorityClass names the priority class of a pod and overrides spec.priority, see PriorityClass.
	LabelPriorityClass = "koordinator.sh/priority-class"
	// LabelPriority is the sub-priority within a priority class: an int32 in decimal. It never affects the class.
	LabelPriority = "koordinator.sh/priority"
	// LabelSkipEnhancedValidation with the value "true" exempts a pod from the rules on required labels.
	LabelSkipEnhancedValidation = "pod.koordinator.sh/skip-enhanced-validation"
	// LabelBindingBypass is the default of the labels whose presence exempts a pod from binding admission.
	LabelBindingBypass = "koordinator.sh/binding-admission-bypass"

	// LabelQuotaName names the elastic quota that a pod belongs to.
	LabelQuotaName = "quota.scheduling.koordinator.sh/name"
	// LabelQuotaPreemptible with the value "false" makes a pod count as non-preemptible; it cannot change.
	LabelQuotaPreemptible = "quota.scheduling.koordinator.sh/preemptible"
)

// Annotations of pods.
const (
	// AnnotationExtendedResourceSpec repeats the batch resources of a pod for the node agent, see ExtendedResourceSpec.
	AnnotationExtendedResourceSpec = "node.koordinator.sh/extended-resource-spec"
	// AnnotationReplaceResources renames resources while a quota is evaluated: "from:to,from2:to2,erase:".
	AnnotationReplaceResources = "pod.koordinator.sh/replace-resources"
	// AnnotationDeviceClaims is the JSON text of a ResourceList: the devices that a pod claims, as they count for quotas. usher
	// sets it when the pod is created; it never changes.
	AnnotationDeviceClaims = "usher.dev/device-claims"
	// AnnotationReservePod marks the pod by which the scheduler represents a reservation; real pods must not have it.
	AnnotationReservePod = "scheduling.koordinator.sh/reserve-pod"
	// AnnotationResourceSpec requests a CPU binding, see ResourceSpec.
	AnnotationResourceSpec = "scheduling.koordinator.sh/resource-spec"
	// AnnotationNUMATopologySpec requests a NUMA alignment, see NUMATopologySpec.
	AnnotationNUMATopologySpec = "scheduling.koordinator.sh/numa-topology-spec"
	// AnnotationReservationAffinity selects reservations, see ReservationAffinity.
	AnnotationReservationAffinity = "scheduling.koordinator.sh/reservation-affinity"
	// AnnotationOOMScoreAdj is the oom_score_adj of the pod's processes, AnnotationOOMScoreAdjSpec that of single
	// containers: {"app":-500}.
	AnnotationOOMScoreAdj     = "koordinator.sh/oom-score-adj"
	AnnotationOOMScoreAdjSpec = "koordinator.sh/oom-score-adj-spec"
	// AnnotationEvictionPriority is an int32: the node agent evicts pods with lower ones first.
	AnnotationEvictionPriority = "koordinator.sh/eviction-priority"
	// AnnotationEvictionPolicy is a JSON array of the policies that may evict the pod.
	AnnotationEvictionPolicy = "koordinator.sh/eviction-policy"
	// AnnotationPreAllocatablePriority is an int64: reservations take over pods with higher ones first.
	AnnotationPreAllocatablePriority = "pod.koordinator.sh/pre-allocatable-priority"
)

// Keys of ClusterColocationProfiles.
const (
	// AnnotationSkipUpdateResources on a profile, with any value, disables the translation of cpu and memory.
	AnnotationSkipUpdateResources = "config.koordinator.sh/skip-update-resources"
)

// Labels of ElasticQuotas.
const (
	// LabelQuotaIsParent marks a parent if its value is exactly "true". Pods belong to quotas that are not parents.
	LabelQuotaIsParent = "quota.scheduling.koordinator.sh/is-parent"
	// LabelQuotaParent names the parent quota; empty or not set means RootQuota.
	LabelQuotaParent = "quota.scheduling.koordinator.sh/parent"
	// LabelQuotaTreeID is the tree that a quota belongs to; on an ElasticQuotaProfile, the tree of its root quota.
	LabelQuotaTreeID = "quota.scheduling.koordinator.sh/tree-id"
	// LabelQuotaIsRoot marks the root of a tree if its value is exactly "true".
	LabelQuotaIsRoot = "quota.scheduling.koordinator.sh/is-root"
	// LabelQuotaAllowForceUpdate with the exact value "true" skips the checks of sums and guarantees.
	LabelQuotaAllowForceUpdate = "quota.scheduling.koordinator.sh/allow-force-update"
)

// Annotations of ElasticQuotas. "A list" is the JSON text of a ResourceList.
const (
	// AnnotationQuotaNamespaces is a JSON array of the namespaces whose pods belong to the quota.
	AnnotationQuotaNamespaces = "quota.scheduling.koordinator.sh/namespaces"
	// AnnotationQuotaSharedWeight is a resource list: the weights for sharing idle resources. Its names are the names
	// in spec.max.
	AnnotationQuotaSharedWeight = "quota.scheduling.koordinator.sh/shared-weight"
	// AnnotationQuotaChildRequest is a list: the total of the requests of the quota's pods. The webhook and the
	// scheduler write it.
	AnnotationQuotaChildRequest = "quota.scheduling.koordinator.sh/child-request"
	// AnnotationQuotaAdmission is a list: the limits at admission that replace spec.max, unless it is empty.
	AnnotationQuotaAdmission = "quota.scheduling.koordinator.sh/admission"
	// AnnotationQuotaGuaranteed is a list, written by the scheduler: what the quota's subtree is guaranteed.
	AnnotationQuotaGuaranteed = "quota.scheduling.koordinator.sh/guaranteed"
	// AnnotationQuotaMaxStrictCheck is a JSON array of resource names for which spec.max may not fall below what is
	// used.
	AnnotationQuotaMaxStrictCheck = "quota.scheduling.koordinator.sh/max-strict-check-resource-keys"
	// AnnotationQuotaReservations is usher's own record of pods that were admitted and not observed yet, written by the
	// quota ledger.
	AnnotationQuotaReservations = "usher.dev/reservations"
)

// Annotations of Nodes for amplification, as defined by Koordinator.
const (
	// AnnotationAmplificationRatio is a JSON object from resource name to number: {"cpu":1.5}.
	AnnotationAmplificationRatio = "node.koordinator.sh/resource-amplification-ratio"
	// AnnotationRawAllocatable is a list: status.allocatable before amplification.
	AnnotationRawAllocatable = "node.koordinator.sh/raw-allocatable"
)

// Names of the quotas that always exist. Pods that belong to one of them are not limited.
const (
	SystemQuota  = "koordinator-system-quota"
	RootQuota    = "koordinator-root-quota"
	DefaultQuota = "koordinator-default-quota"
)

// ReservedQuota reports whether a name is one of these.
func ReservedQuota(name string) bool {
	return name == SystemQuota || name == RootQuota || name == DefaultQuota
}

// Reclaimed resources, which other pods requested and do not use. CPU is an integer number of milli-cores.
const (
	ResourceBatchCPU    corev1.ResourceName = "kubernetes.io/batch-cpu"
	ResourceBatchMemory corev1.ResourceName = "kubernetes.io/batch-memory"
	ResourceMidCPU      corev1.ResourceName = "kubernetes.io/mid-cpu"
	ResourceMidMemory   corev1.ResourceName = "kubernetes.io/mid-memory"
)

// Resources of devices.
const (
	// ResourceGPU stands for the same amount of ResourceGPUCore and of ResourceGPUMemoryRatio, in percent of a card.
	ResourceGPU corev1.ResourceName = "koordinator.sh/gpu"
	// ResourceGPUShared is a number of cards.
	ResourceGPUShared corev1.ResourceName = "koordinator.sh/gpu.shared"
	// ResourceGPUCore is in percent of a card.
	ResourceGPUCore corev1.ResourceName = "koordinator.sh/gpu-core"
	// ResourceGPUMemory is in bytes.
	ResourceGPUMemory corev1.ResourceName = "koordinator.sh/gpu-memory"
	// ResourceGPUMemoryRatio is in percent of a card.
	ResourceGPUMemoryRatio corev1.ResourceName = "koordinator.sh/gpu-memory-ratio"
	// ResourceHuaweiNPUCore is a number of cores.
	ResourceHuaweiNPUCore corev1.ResourceName = "huawei.com/npu-core"
)

// MaxDeviceNames bounds the resources that AnnotationDeviceClaims may name, and so those that a policy maps devices to.
const MaxDeviceNames = 100

// LabelRule is a rule of the enhanced pod validator's ConfigMap: labels that pods must have, with or without a value.
type LabelRule struct {
	// Name is shown to users. Several rules may have the same name.
	Name string `json:"name"`
	// RequiredLabels are the keys of the labels.
	RequiredLabels []string `json:"requiredLabels"`
	// NamespaceWhitelist are the namespaces that the rule does not apply to.
	NamespaceWhitelist []string `json:"namespaceWhitelist"`
}
