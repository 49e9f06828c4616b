package collections

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// PodRequests holds what quotas need of all pods: requests, node, quota label, and whether they have ended.
var PodRequests = &cluster.Collection[*quota.Pod]{
	Name: api.CollectionPodRequests, Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true,
	Keep: cluster.Keep(keepPod).Or(func() cluster.Shortcut[*quota.Pod] { return newPodShapes().read }),
}

// countedPod is a Pod that decodes only what quota.PodOf reads. Requests are sufficient: the API server defaults
// missing requests from limits before it stores a pod.
type countedPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName       string                `json:"nodeName"`
		InitContainers []requestingContainer `json:"initContainers"`
		Containers     []requestingContainer `json:"containers"`
		Overhead       api.ResourceList      `json:"overhead"`
		Resources      *requests             `json:"resources"`
	} `json:"spec"`
	Status allocatedStatus `json:"status"`
}

type requestingContainer struct {
	Name          string                         `json:"name"`
	Resources     requests                       `json:"resources"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
}

// requests is a corev1.ResourceRequirements that is also safe to read from a file.
type requests struct {
	Requests requestList `json:"requests"`
}

// requestList is a resource list with its text.
type requestList struct {
	list api.ResourceList
	text string
}

// UnmarshalJSON decodes the list and keeps its text.
func (r *requestList) UnmarshalJSON(data []byte) error {
	r.text = string(data)
	return r.list.UnmarshalJSON(data)
}

func (r requests) requirements() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList(r.Requests.list)}
}

// keepPod returns what is kept of a pod.
func keepPod(o *countedPod) *quota.Pod {
	spec := &corev1.PodSpec{
		NodeName: o.Spec.NodeName, Overhead: corev1.ResourceList(o.Spec.Overhead),
		InitContainers: containersOf(o.Spec.InitContainers), Containers: containersOf(o.Spec.Containers),
	}
	if o.Spec.Resources != nil {
		whole := o.Spec.Resources.requirements()
		spec.Resources = &whole
	}
	return quota.PodOf(&o.ObjectMeta, spec, o.status())
}

func containersOf(list []requestingContainer) []corev1.Container {
	containers := make([]corev1.Container, len(list))
	for i, c := range list {
		containers[i] = corev1.Container{Name: c.Name, Resources: c.Resources.requirements(), RestartPolicy: c.RestartPolicy}
	}
	return containers
}

// NodeRequests returns the sum of the requests of the pods on a node, without those that have ended.
// known is false before pods were listed. It scans all pods (10 ms for 100,000), so it is for rare queries only.
func (q Questions) NodeRequests(node string) (requests corev1.ResourceList, known bool) {
	pods, err := PodRequests.All(q.Now())
	if !answered(err) {
		return nil, false
	}
	requests = corev1.ResourceList{}
	for _, pod := range pods.Each() {
		if pod.Node == node && !pod.Ended {
			quantity.AddTo(requests, pod.Requests)
		}
	}
	return requests, true
}

// PodsOf returns the pods that belong to a quota, as sorted namespace/name, and their number. labelOnly is gate
// DisableDefaultQuota. It scans all pods, so it is for rare queries only. It returns none if pods have not been listed:
// call QuotasWithPods first.
func (q Questions) PodsOf(name string, labelOnly bool) (found []string, total int) {
	s := q.Now()
	tree, err := TreeOf(s)
	if !answered(err) {
		return nil, 0
	}
	pods, err := PodRequests.All(s)
	if !answered(err) {
		return nil, 0
	}
	for key, pod := range pods.Each() {
		if !pod.Ended && tree.Bind(pod.BindingKey(), labelOnly).Name == name {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found, len(found)
}
