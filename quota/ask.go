package quota

import corev1 "k8s.io/api/core/v1"

// Ask is the question whether a pod fits into its quota and all above it.
type Ask struct {
	// Pod is the pod as it will be. Its UID is what the answer is remembered under.
	Pod *Pod
	// Binding is the quota that the pod will belong to; its Quota is set.
	Binding Binding
	// Charge is what the pod counts for there, Counting.Charge of it.
	Charge corev1.ResourceList
	// Before is where the stored pod stands and what it counts for there, when a pod is moved or resized; nil for a new one. What does not
	// grow is not judged.
	Before *Standing
}

// Standing is a place in the tree and what is charged there.
type Standing struct {
	Binding Binding
	Charge  corev1.ResourceList
}

// Excess is why a pod does not fit.
type Excess struct {
	// Quota is the first quota on the path, from the pod's own upwards, that has no room.
	Quota string
	// Via is how the pod came to its own quota, Binding.Via, and Own that quota.
	Via, Own string
	// Items are all that is exceeded, in the order of the path, then of the resource names.
	Items []ExcessItem
}

// ExcessItem is one resource that a quota has too little of.
type ExcessItem struct {
	Quota    string
	Resource corev1.ResourceName
	// Requested is what the pod asks for; Used is what the pods that are there count for, and Reserved what pods count for that were
	// admitted but not seen yet.
	Requested, Used, Reserved, Limit Amount
	// Source is where the limit stands, as Quota.Limit tells it: "spec.max" or the annotation.
	Source string
}
