package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/api"
	"usher.dev/usher/quota"
)

// countedPod is a Pod of which only what quota.PodOf reads is decoded. Requests are enough: the API server has made requests of limits
// that stand alone before it stored the pod.
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
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

type requestingContainer struct {
	Name          string                         `json:"name"`
	Resources     requests                       `json:"resources"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
}

// requests is a corev1.ResourceRequirements that is safe to read from a file, too.
type requests struct {
	Requests api.ResourceList `json:"requests"`
}

func (r requests) requirements() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList(r.Requests)}
}

// keepPod keeps what is counted of a pod.
func keepPod(o *countedPod) any {
	spec := &corev1.PodSpec{
		NodeName: o.Spec.NodeName, Overhead: corev1.ResourceList(o.Spec.Overhead),
		InitContainers: containersOf(o.Spec.InitContainers), Containers: containersOf(o.Spec.Containers),
	}
	if o.Spec.Resources != nil {
		whole := o.Spec.Resources.requirements()
		spec.Resources = &whole
	}
	inNamespace(&o.ObjectMeta)
	return quota.PodOf(&o.ObjectMeta, spec, o.Status.Phase)
}

func containersOf(list []requestingContainer) []corev1.Container {
	containers := make([]corev1.Container, len(list))
	for i, c := range list {
		containers[i] = corev1.Container{Name: c.Name, Resources: c.Resources.requirements(), RestartPolicy: c.RestartPolicy}
	}
	return containers
}

// addRequests adds what a pod asks its node for, of cpu and memory, to a sum.
func addRequests(sum corev1.ResourceList, p *quota.Pod) {
	for _, name := range api.Amplifiable() {
		if api.Asks(p.Requests, name) {
			total := sum[name].DeepCopy()
			total.Add(p.Requests[name])
			sum[name] = total
		}
	}
}
