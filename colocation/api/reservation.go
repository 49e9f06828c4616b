package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// How the API server knows Reservations.
var (
	ReservationKind     = schema.GroupVersionKind{Group: "scheduling.koordinator.sh", Version: "v1alpha1", Kind: "Reservation"}
	ReservationResource = ReservationKind.GroupVersion().WithResource("reservations")
)

// CollectionReservations names the collection of all of them, for Needs.
const CollectionReservations = "reservations"

// Reservation sets resources of a node aside for pods that come later. It has no namespace.
type Reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReservationSpec   `json:"spec,omitempty"`
	Status ReservationStatus `json:"status,omitempty"`
}

// ReservationSpec is what is reserved, for whom and for how long.
type ReservationSpec struct {
	// Template is the pod that the scheduler finds room for. The API server knows no schema for it.
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
	// Owners may use what is reserved: a pod that fits any of them. There is at least one.
	Owners []ReservationOwner `json:"owners"`
	// TTL is how long the reservation lives; zero is for ever, and the CRD's default 24h. Expires goes before it.
	TTL *metav1.Duration `json:"ttl,omitempty"`
	// Expires is when the reservation ends.
	Expires *metav1.Time `json:"expires,omitempty"`
	// PreAllocation reserves what running pods still hold.
	PreAllocation bool `json:"preAllocation,omitempty"`
	// PreAllocationPolicy says from which pods.
	PreAllocationPolicy *PreAllocationPolicy `json:"preAllocationPolicy,omitempty"`
	// AllocateOnce gives all that is reserved to the first owner; nil is true, the CRD's default.
	AllocateOnce *bool `json:"allocateOnce,omitempty"`
	// AllocatePolicy says whether an owner may ask for more than what is reserved.
	AllocatePolicy AllocatePolicy `json:"allocatePolicy,omitempty"`
	// Unschedulable closes the reservation for new owners.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Taints keep pods off that do not tolerate them in their ReservationAffinity.
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// ReservationOwner describes pods. What is set must all fit; something is set.
type ReservationOwner struct {
	// Object is one pod.
	Object *corev1.ObjectReference `json:"object,omitempty"`
	// Controller is the workload that the pods belong to.
	Controller *ReservationController `json:"controller,omitempty"`
	// LabelSelector selects by the pods' labels.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// ReservationController is a workload in a namespace, all namespaces if it is empty.
type ReservationController struct {
	metav1.OwnerReference `json:",inline"`
	Namespace             string `json:"namespace,omitempty"`
}

// AllocatePolicy says how owners take from a reservation and from the node around it.
type AllocatePolicy string

// The allocate policies. The empty one, the default, lets an owner take from both as it comes.
const (
	// AllocateAligned takes from the reservation first, then from the node.
	AllocateAligned AllocatePolicy = "Aligned"
	// AllocateRestricted takes resources that are reserved from the reservation alone.
	AllocateRestricted AllocatePolicy = "Restricted"
)

// PreAllocationPolicy says from which running pods a reservation takes over.
type PreAllocationPolicy struct {
	// Mode is Default, the CRD's default, for pods that are the reservation's owners, or Cluster for pods that are marked so.
	Mode PreAllocationMode `json:"mode,omitempty"`
	// EnableMultiple takes over from more than one pod.
	EnableMultiple bool `json:"enableMultiple,omitempty"`
}

// PreAllocationMode is a way to find pods.
type PreAllocationMode string

// The pre-allocation modes.
const (
	PreAllocationDefault PreAllocationMode = "Default"
	PreAllocationCluster PreAllocationMode = "Cluster"
)

// ReservationStatus is what became of a reservation, without the conditions and the owners, which no webhook reads.
type ReservationStatus struct {
	Phase    ReservationPhase `json:"phase,omitempty"`
	NodeName string           `json:"nodeName,omitempty"`
	// Allocatable is what is reserved; Allocated is how much of it owners took.
	Allocatable ResourceList `json:"allocatable,omitempty"`
	Allocated   ResourceList `json:"allocated,omitempty"`
}

// ReservationPhase is where a reservation is in its life.
type ReservationPhase string

// The phases of a reservation.
const (
	ReservationPending   ReservationPhase = "Pending"
	ReservationAvailable ReservationPhase = "Available"
	ReservationSucceeded ReservationPhase = "Succeeded"
	ReservationWaiting   ReservationPhase = "Waiting"
	ReservationFailed    ReservationPhase = "Failed"
)
