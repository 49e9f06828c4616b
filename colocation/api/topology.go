package api

import corev1 "k8s.io/api/core/v1"

// ResourceSpec is the JSON of AnnotationResourceSpec: how a pod wants to be bound to CPUs.
type ResourceSpec struct {
	// RequiredCPUBindPolicy fails scheduling if it cannot be had; PreferredCPUBindPolicy does not.
	RequiredCPUBindPolicy  CPUBindPolicy `json:"requiredCPUBindPolicy,omitempty"`
	PreferredCPUBindPolicy CPUBindPolicy `json:"preferredCPUBindPolicy,omitempty"`
	// PreferredCPUExclusivePolicy keeps others of the same policy away, as far as can be.
	PreferredCPUExclusivePolicy CPUExclusivePolicy `json:"preferredCPUExclusivePolicy,omitempty"`
}

// CPUBindPolicy is a way to choose logical CPUs.
type CPUBindPolicy string

// The CPU bind policies.
const (
	CPUBindDefault          CPUBindPolicy = "Default"          // as the scheduler is configured
	CPUBindFullPCPUs        CPUBindPolicy = "FullPCPUs"        // whole physical cores
	CPUBindSpreadByPCPUs    CPUBindPolicy = "SpreadByPCPUs"    // spread over physical cores
	CPUBindConstrainedBurst CPUBindPolicy = "ConstrainedBurst" // shared CPUs of a restricted range
)

// CPUBindPolicies are all CPU bind policies.
func CPUBindPolicies() []CPUBindPolicy {
	return []CPUBindPolicy{CPUBindDefault, CPUBindFullPCPUs, CPUBindSpreadByPCPUs, CPUBindConstrainedBurst}
}

// CPUExclusivePolicy says what a pod does not share with its like.
type CPUExclusivePolicy string

// The CPU exclusive policies.
const (
	CPUExclusiveNone          CPUExclusivePolicy = "None"
	CPUExclusivePCPULevel     CPUExclusivePolicy = "PCPULevel"     // a physical core
	CPUExclusiveNUMANodeLevel CPUExclusivePolicy = "NUMANodeLevel" // a NUMA node
)

// CPUExclusivePolicies are all CPU exclusive policies.
func CPUExclusivePolicies() []CPUExclusivePolicy {
	return []CPUExclusivePolicy{CPUExclusiveNone, CPUExclusivePCPULevel, CPUExclusiveNUMANodeLevel}
}

// NUMATopologySpec is the JSON of AnnotationNUMATopologySpec: how a pod wants to be aligned with NUMA nodes.
type NUMATopologySpec struct {
	NUMATopologyPolicy NUMATopologyPolicy `json:"numaTopologyPolicy,omitempty"`
	// SingleNUMANodeExclusive keeps pods of one NUMA node and pods of several apart.
	SingleNUMANodeExclusive NUMAExclusive `json:"singleNUMANodeExclusive,omitempty"`
}

// NUMATopologyPolicy is an alignment, with the meaning of the kubelet's topology manager policy of that name.
type NUMATopologyPolicy string

// The NUMA topology policies.
const (
	NUMATopologyNone           NUMATopologyPolicy = "" // any
	NUMATopologyBestEffort     NUMATopologyPolicy = "BestEffort"
	NUMATopologyRestricted     NUMATopologyPolicy = "Restricted"
	NUMATopologySingleNUMANode NUMATopologyPolicy = "SingleNUMANode"
)

// NUMATopologyPolicies are all NUMA topology policies that have a name.
func NUMATopologyPolicies() []NUMATopologyPolicy {
	return []NUMATopologyPolicy{NUMATopologyBestEffort, NUMATopologyRestricted, NUMATopologySingleNUMANode}
}

// NUMAExclusive says how strictly pods of one NUMA node and pods of several are kept apart.
type NUMAExclusive string

// The ways to keep apart.
const (
	NUMAExclusivePreferred NUMAExclusive = "Preferred"
	NUMAExclusiveRequired  NUMAExclusive = "Required"
)

// NUMAExclusives are all ways to keep apart.
func NUMAExclusives() []NUMAExclusive {
	return []NUMAExclusive{NUMAExclusivePreferred, NUMAExclusiveRequired}
}

// ReservationAffinity is the JSON of AnnotationReservationAffinity: which reservations a pod must use. It uses none beside them.
type ReservationAffinity struct {
	// Name is the one reservation.
	Name string `json:"name,omitempty"`
	// ReservationSelector are labels of the reservation.
	ReservationSelector map[string]string `json:"reservationSelector,omitempty"`
	// RequiredDuringSchedulingIgnoredDuringExecution selects by labels, like a pod's node affinity.
	RequiredDuringSchedulingIgnoredDuringExecution *ReservationAffinitySelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// Tolerations are of the reservation's taints.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// ReservationAffinitySelector fits if any of its terms does.
type ReservationAffinitySelector struct {
	ReservationSelectorTerms []corev1.NodeSelectorTerm `json:"reservationSelectorTerms,omitempty"`
}

// ExtendedResourceSpec is the JSON of AnnotationExtendedResourceSpec: the batch resources of a pod's containers, by container.
type ExtendedResourceSpec struct {
	Containers map[string]ExtendedResourceContainer `json:"containers,omitempty"`
}

// ExtendedResourceContainer is one container's part of an ExtendedResourceSpec.
type ExtendedResourceContainer struct {
	Limits   ResourceList `json:"limits,omitempty"`
	Requests ResourceList `json:"requests,omitempty"`
}
