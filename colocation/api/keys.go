// Package api has keys, kinds and derivations that are shared with Koordinator.
package api

import corev1 "k8s.io/api/core/v1"

// Labels of pods. A reservation carries LabelQoSClass and LabelPriority too.
const (
	// LabelQoSClass is the Koordinator QoS class of a pod, see QoSClass.
	LabelQoSClass = "koordinator.sh/qosClass"
	// LabelPriorityClass names the priority class of a pod, over what spec.priority says, see PriorityClass.
	LabelPriorityClass = "koordinator.sh/priority-class"
	// LabelPriority is the sub-priority within a priority class: an int32 in decimal. It never influences the class.
	LabelPriority = "koordinator.sh/priority"
	// LabelSkipEnhancedValidation with the value "true" exempts a pod from the rules about required labels.
	LabelSkipEnhancedValidation = "pod.koordinator.sh/skip-enhanced-validation"
	// LabelBindingBypass is the default of the labels whose mere presence exempts a pod from binding admission.
	LabelBindingBypass = "koordinator.sh/binding-admission-bypass"

	// LabelQuotaName names the elastic quota that a pod counts against.
	LabelQuotaName = "quota.scheduling.koordinator.sh/name"
	// LabelQuotaPreemptible with the value "false" makes a pod count as not preemptible; it may not change.
	LabelQuotaPreemptible = "quota.scheduling.koordinator.sh/preemptible"
)

// Annotations of pods.
const (
	// AnnotationExtendedResourceSpec repeats a pod's batch resources for the node agent, see ExtendedResourceSpec.
	AnnotationExtendedResourceSpec = "node.koordinator.sh/extended-resource-spec"
	// AnnotationReplaceResources renames resources while a quota is evaluated: "from:to,from2:to2,erase:".
	AnnotationReplaceResources = "pod.koordinator.sh/replace-resources"
	// AnnotationReservePod marks the scheduler's own stand-in for a reservation; a real pod must not carry it.
	AnnotationReservePod = "scheduling.koordinator.sh/reserve-pod"
	// AnnotationResourceSpec asks for a way to bind CPUs, see ResourceSpec.
	AnnotationResourceSpec = "scheduling.koordinator.sh/resource-spec"
	// AnnotationNUMATopologySpec asks for an alignment with NUMA nodes, see NUMATopologySpec.
	AnnotationNUMATopologySpec = "scheduling.koordinator.sh/numa-topology-spec"
	// AnnotationReservationAffinity chooses reservations, see ReservationAffinity.
	AnnotationReservationAffinity = "scheduling.koordinator.sh/reservation-affinity"
)

// Keys of ClusterColocationProfiles.
const (
	// AnnotationSkipUpdateResources on a profile, with any value, keeps the webhook from translating cpu and memory.
	AnnotationSkipUpdateResources = "config.koordinator.sh/skip-update-resources"
)

// Labels of ElasticQuotas.
const (
	// LabelQuotaIsParent: a parent exactly if "true". Pods belong to quotas that are no parents.
	LabelQuotaIsParent = "quota.scheduling.koordinator.sh/is-parent"
	// LabelQuotaParent names the parent quota; empty or missing means RootQuota.
	LabelQuotaParent = "quota.scheduling.koordinator.sh/parent"
	// LabelQuotaTreeID is the tree that a quota belongs to; on an ElasticQuotaProfile the tree that it roots.
	LabelQuotaTreeID = "quota.scheduling.koordinator.sh/tree-id"
	// LabelQuotaIsRoot: root of a tree exactly if "true".
	LabelQuotaIsRoot = "quota.scheduling.koordinator.sh/is-root"
	// LabelQuotaAllowForceUpdate exactly "true" skips the checks of sums and guarantees.
	LabelQuotaAllowForceUpdate = "quota.scheduling.koordinator.sh/allow-force-update"
)

// Annotations of ElasticQuotas. Those called lists are JSON texts of a ResourceList.
const (
	// AnnotationQuotaNamespaces is a JSON array of the namespaces whose pods count against the quota.
	AnnotationQuotaNamespaces = "quota.scheduling.koordinator.sh/namespaces"
	// AnnotationQuotaSharedWeight is a list: the weight in sharing what is idle. Its names are those of spec.max.
	AnnotationQuotaSharedWeight = "quota.scheduling.koordinator.sh/shared-weight"
	// AnnotationQuotaChildRequest is a list: what the quota's pods ask for. The webhook and the scheduler write it.
	AnnotationQuotaChildRequest = "quota.scheduling.koordinator.sh/child-request"
	// AnnotationQuotaAdmission is a list: the limit at admission instead of spec.max, unless it is empty.
	AnnotationQuotaAdmission = "quota.scheduling.koordinator.sh/admission"
	// AnnotationQuotaGuaranteed is a list, written by the scheduler: what the quota's subtree is guaranteed.
	AnnotationQuotaGuaranteed = "quota.scheduling.koordinator.sh/guaranteed"
	// AnnotationQuotaMaxStrictCheck is a JSON array of resource names for which spec.max may not fall below what is used.
	AnnotationQuotaMaxStrictCheck = "quota.scheduling.koordinator.sh/max-strict-check-resource-keys"
	// AnnotationQuotaReservations is usher's own record of pods that were admitted and not seen yet; the quota ledger writes it.
	AnnotationQuotaReservations = "usher.dev/reservations"
)

// Annotations of Nodes, as Koordinator's amplification knows them.
const (
	// AnnotationAmplificationRatio is JSON of resource name to number: {"cpu":1.5}.
	AnnotationAmplificationRatio = "node.koordinator.sh/resource-amplification-ratio"
	// AnnotationRawAllocatable is a list: status.allocatable before the amplification.
	AnnotationRawAllocatable = "node.koordinator.sh/raw-allocatable"
)

// Names of quotas that exist without anybody creating them. Pods that come to belong to one of them are not limited.
const (
	SystemQuota  = "koordinator-system-quota"
	RootQuota    = "koordinator-root-quota"
	DefaultQuota = "koordinator-default-quota"
)

// ReservedQuota reports whether a name is one of the reserved names.
func ReservedQuota(name string) bool {
	return name == SystemQuota || name == RootQuota || name == DefaultQuota
}

// Resources that were reclaimed from pods that do not use what they asked for. CPU is counted in milli-cores, as an integer.
const (
	ResourceBatchCPU    corev1.ResourceName = "kubernetes.io/batch-cpu"
	ResourceBatchMemory corev1.ResourceName = "kubernetes.io/batch-memory"
	ResourceMidCPU      corev1.ResourceName = "kubernetes.io/mid-cpu"
	ResourceMidMemory   corev1.ResourceName = "kubernetes.io/mid-memory"
)

// Resources of devices.
const (
	// ResourceGPU is short for as much of ResourceGPUCore and of ResourceGPUMemoryRatio, in percent of a card.
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
