package quota

import (
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// Request is the question whether a pod fits into its quota and all quotas above it.
type Request struct {
	// Key determines the quota of the pod.
	Key BindingKey
	// From is the resourceVersion of the stored pod, for an update; empty if it is not known.
	From string
	// Read returns the pod as requested and, for an update of an existing pod, as stored; stored is nil for a new pod.
	// A reservation is stored under the UID of pod. Read is called at most once, before the call returns, and only if
	// the pod belongs to a quota: many do not, and computing their requests takes time.
	Read func() (pod, stored *Pod)
}

// PodVerdict is the answer to a Request. A pod is admitted if its quota exists and there is no Excess.
type PodVerdict struct {
	// Binding is the quota of the pod.
	Binding Binding
	// Unknown reports that Binding names a quota that does not exist, and that the pod is charged for more there than
	// before.
	Unknown bool
	// BrokenLimits are the quotas, from the pod's own upwards, whose annotation api.AnnotationQuotaAdmission does not
	// parse, so that only spec.max limits.
	BrokenLimits []string
	// Excess lists the limits that the pod exceeds, in the order of the path and then of the resource names.
	Excess []Excess
}

// Excess is a limit that a pod would exceed.
type Excess struct {
	Quota    string
	Resource corev1.ResourceName
	// Requested is the request of the pod, Used the total of the observed pods, and Reserved the total of pods that
	// were admitted but not observed yet.
	Requested, Used, Reserved, Limit Amount
	// RequestedAsked and UsedAsked are the same by the specs of the pods alone; nil where there is no difference.
	RequestedAsked, UsedAsked *Amount
	// Source is the field that sets the limit, as returned by Quota.Limit: "spec.max" or the annotation.
	Source string
}

// BySpec returns what follows an amount in a text if the specs of the pods request another: " (5 by spec)"; "" for nil.
func BySpec(asked *Amount) string {
	if asked == nil {
		return ""
	}
	return " (" + asked.String() + " by spec)"
}

// BindingKeyOf returns the key of a pod under review, which is in the given namespace whatever its metadata says.
func BindingKeyOf(namespace string, pod *admit.Pod) BindingKey {
	return BindingKey{Namespace: namespace, Label: pod.Label(api.LabelQuotaName), Labelled: pod.HasLabel(api.LabelQuotaName)}
}
