package quota

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/api"
)

// HolderOf is that of a pod under review, which is in the given namespace whatever its metadata says.
func HolderOf(namespace string, pod *admit.Pod) Holder {
	return Holder{Namespace: namespace, Label: pod.Label(api.LabelQuotaName), Labelled: pod.HasLabel(api.LabelQuotaName)}
}

// Unknown tells whether the pod's label names a quota that does not exist. The other ways lead to quotas that do.
func (b Binding) Unknown() bool {
	return b.Quota == nil && b.Name != "" && !api.ReservedQuota(b.Name)
}
