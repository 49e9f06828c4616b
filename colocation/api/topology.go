package api

import corev1 "k8s.io/api/core/v1"

// ResourceSpec is the JSON of AnnotationResourceSpec: the CPU binding that a pod requests.
type ResourceSpec struct {
	// RequiredCPUBindPolicy makes scheduling fail if it cannot be satisfied; PreferredCPUBindPolicy does not.
	RequiredCPUBindPolicy  CPUBindPolicy `json:"requiredCPUBindPolicy,omitempty"`
	PreferredCPUBindPolicy CPUBindPolicy `json:"preferredCPUBindPolicy,omitempty"`
	// PreferredCPUExclusivePolicy keeps away other pods with the same policy, as far as possible.
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

// CPUBindPolicies returns all CPU bind policies.
func CPUBindPolicies() []CPUBindPolicy {
	return []CPUBindPolicy{CPUBindDefault, CPUBindFullPCPUs, CPUBindSpreadByPCPUs, CPUBindConstrainedBurst}
}

// CPUExclusivePolicy names the unit of CPU that a pod does not share with other pods of the same policy.
type CPUExclusivePolicy string

// The CPU exclusive policies.
const (
	CPUExclusiveNone          CPUExclusivePolicy = "None"
	CPUExclusivePCPULevel     CPUExclusivePolicy = "PCPULevel"     // a physical core
	CPUExclusiveNUMANodeLevel CPUExclusivePolicy = "NUMANodeLevel" // a NUMA node
)

// CPUExclusivePolicies returns all CPU exclusive policies.
func CPUExclusivePolicies() []CPUExclusivePolicy {
	return []CPUExclusivePolicy{CPUExclusiveNone, CPUExclusivePCPULevel, CPUExclusiveNUMANodeLevel}
}

// NUMATopologySpec is the JSON of AnnotationNUMATopologySpec: the NUMA alignment that a pod requests.
type NUMATopologySpec struct {
	NUMATopologyPolicy NUMATopologyPolicy `json:"numaTopologyPolicy,omitempty"`
	// SingleNUMANodeExclusive separates pods on a single NUMA node from pods on several.
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

// NUMATopologyPolicies returns all NUMA topology policies except the empty one.
func NUMATopologyPolicies() []NUMATopologyPolicy {
	return []NUMATopologyPolicy{NUMATopologyBestEffort, NUMATopologyRestricted, NUMATopologySingleNUMANode}
}

// NUMAExclusive says how strictly pods on a single NUMA node are separated from pods on several.
type NUMAExclusive string

// The degrees of separation.
const (
	NUMAExclusivePreferred NUMAExclusive = "Preferred"
	NUMAExclusiveRequired  NUMAExclusive = "Required"
)

// NUMAExclusives returns all degrees of separation.
func NUMAExclusives() []NUMAExclusive {
	return []NUMAExclusive{NUMAExclusivePreferred, NUMAExclusiveRequired}
}

// ReservationAffinity is the JSON of AnnotationReservationAffinity: the reservations of which a pod must use one. It
// then uses no others.
type ReservationAffinity struct {
	// Name selects a single reservation.
	Name string `json:"name,omitempty"`
	// ReservationSelector are required labels of the reservation.
	ReservationSelector map[string]string `json:"reservationSelector,omitempty"`
	// RequiredDuringSchedulingIgnoredDuringExecution selects by labels, like a pod's node affinity.
	RequiredDuringSchedulingIgnoredDuringExecution *ReservationAffinitySelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// Tolerations are for the taints of the reservation.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// ReservationAffinitySelector matches if any of its terms does.
type ReservationAffinitySelector struct {
	ReservationSelectorTerms []corev1.NodeSelectorTerm `json:"reservationSelectorTerms,omitempty"`
}
