package quota

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// Request asks whether a pod fits into its quota and all above it.
type Request struct {
	// Key decides which quota the pod belongs to.
	Key BindingKey
	// Read returns the pod as it will be and, if it exists and is moved, resized or revived, as it is stored; nil for a new one. Its UID is what
	// the answer is remembered under. Read is called at most once, before the question returns, and only if the pod is of some quota:
	// many are of none, and counting what they ask for takes time.
	Read func() (pod, stored *Pod)
}

// PodVerdict is the answer to a Request, by one tree. A pod is admitted if its quota is known and there is no Excess.
type PodVerdict struct {
	// Binding is the quota that the pod belongs to.
	Binding Binding
	// Unknown reports that Binding names a quota that does not exist, and the pod counts for more there than before.
	Unknown bool
	// BrokenLimits are the quotas, from the pod's own upwards, whose annotation api.AnnotationQuotaAdmission does not parse, so that spec.max
	// alone limits.
	BrokenLimits []string
	// Excess is all that does not fit, in the order of the path, then of the resource names.
	Excess []Excess
}

// Excess is one resource that a quota has too little of.
type Excess struct {
	Quota    string
	Resource corev1.ResourceName
	// Requested is what the pod asks for; Used is what the pods that are there count for, and Reserved what pods count for that were
	// admitted but not seen yet.
	Requested, Used, Reserved, Limit Amount
	// Source is where the limit stands, as Quota.Limit returns it: "spec.max" or the annotation.
	Source string
}

// BindingKeyOf returns the key of a pod under review, which is in the given namespace whatever its metadata says.
func BindingKeyOf(namespace string, pod *admit.Pod) BindingKey {
	return BindingKey{Namespace: namespace, Label: pod.Label(api.LabelQuotaName), Labelled: pod.HasLabel(api.LabelQuotaName)}
}
