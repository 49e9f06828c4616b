package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kind and the resource of Reservations.
var (
	ReservationKind     = schema.GroupVersionKind{Group: "scheduling.koordinator.sh", Version: "v1alpha1", Kind: "Reservation"}
	ReservationResource = ReservationKind.GroupVersion().WithResource("reservations")
)

// CollectionReservations is the name of their collection, for Needs.
const CollectionReservations = "reservations"

// Reservation reserves resources of a node for future pods. It is cluster-scoped.
type Reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReservationSpec   `json:"spec,omitempty"`
	Status ReservationStatus `json:"status,omitempty"`
}

// ReservationSpec says which resources are reserved, for whom and for how long.
type ReservationSpec struct {
	// Template is the pod that the scheduler finds a node for. Its CRD has no schema for it.
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
	// Owners may use what is reserved: pods that match any of them. There is at least one.
	Owners []ReservationOwner `json:"owners"`
	// TTL is the lifetime of the reservation; zero means unlimited. The CRD defaults it to 24h. Expires takes
	// precedence.
	TTL *metav1.Duration `json:"ttl,omitempty"`
	// Expires is when the reservation ends.
	Expires *metav1.Time `json:"expires,omitempty"`
	// PreAllocation reserves resources that running pods still use.
	PreAllocation bool `json:"preAllocation,omitempty"`
	// PreAllocationPolicy selects these pods.
	PreAllocationPolicy *PreAllocationPolicy `json:"preAllocationPolicy,omitempty"`
	// AllocateOnce gives everything that is reserved to the first owner; nil means true, the CRD's default.
	AllocateOnce *bool `json:"allocateOnce,omitempty"`
	// AllocatePolicy determines whether an owner may use more than what is reserved.
	AllocatePolicy AllocatePolicy `json:"allocatePolicy,omitempty"`
	// Unschedulable closes the reservation for new owners.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Taints repel pods that do not tolerate them in their ReservationAffinity.
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// ReservationOwner describes pods. All fields that are set must match; at least one is set.
type ReservationOwner struct {
	// Object is a single pod.
	Object *corev1.ObjectReference `json:"object,omitempty"`
	// Controller is the workload that the pods belong to.
	Controller *ReservationController `json:"controller,omitempty"`
	// LabelSelector selects by the labels of the pods.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// ReservationController is a workload in a namespace, or in any namespace if that is empty.
type ReservationController struct {
	metav1.OwnerReference `json:",inline"`
	Namespace             string `json:"namespace,omitempty"`
}

// AllocatePolicy determines how owners use a reservation and the node around it.
type AllocatePolicy string

// The allocate policies. The default, the empty one, lets an owner use both in any proportion.
const (
	// AllocateAligned uses the reservation first, then the node.
	AllocateAligned AllocatePolicy = "Aligned"
	// AllocateRestricted uses the reservation alone for the resources that it reserves.
	AllocateRestricted AllocatePolicy = "Restricted"
)

// PreAllocationPolicy selects the running pods whose resources a reservation takes over.
type PreAllocationPolicy struct {
	// Mode is Default, the CRD's default, for pods that are owners of the reservation, or Cluster for pods with a mark.
	Mode PreAllocationMode `json:"mode,omitempty"`
	// EnableMultiple allows more than one pod.
	EnableMultiple bool `json:"enableMultiple,omitempty"`
}

// PreAllocationMode is a way to select pods.
type PreAllocationMode string

// The pre-allocation modes.
const (
	PreAllocationDefault PreAllocationMode = "Default"
	PreAllocationCluster PreAllocationMode = "Cluster"
)

// ReservationStatus is the status of a reservation, without the conditions and the owners, which no webhook reads.
type ReservationStatus struct {
	Phase    ReservationPhase `json:"phase,omitempty"`
	NodeName string           `json:"nodeName,omitempty"`
	// Allocatable holds the reserved resources; Allocated is the part that the owners use.
	Allocatable ResourceList `json:"allocatable,omitempty"`
	Allocated   ResourceList `json:"allocated,omitempty"`
}

// ReservationPhase is a phase in the life of a reservation.
type ReservationPhase string

// The phases of a reservation.
const (
	ReservationPending   ReservationPhase = "Pending"
	ReservationAvailable ReservationPhase = "Available"
	ReservationSucceeded ReservationPhase = "Succeeded"
	ReservationWaiting   ReservationPhase = "Waiting"
	ReservationFailed    ReservationPhase = "Failed"
)
