package api

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// PodRequest is what a pod asks a node for, as the scheduler counts: the sum over containers and sidecars, or what an init
// container needs beside the sidecars before it if that is more; the pod's own requests instead, for cpu, memory and huge pages;
// plus its overhead. The status of the pod is not looked at: under review it is what its author wrote.
func PodRequest(spec *corev1.PodSpec) corev1.ResourceList {
	request := podresource.PodRequests(&corev1.Pod{Spec: *spec}, podresource.PodResourcesOptions{ExcludeOverhead: true})
	if spec.Resources != nil {
		// These quantities are the pod's own, and adding to one with very many digits would change it there.
		request = request.DeepCopy()
	}
	for name, overhead := range spec.Overhead {
		sum := request[name]
		sum.Add(overhead)
		request[name] = sum
	}
	return request
}

// Asks reports whether a list holds a resource with an amount other than zero.
func Asks(list corev1.ResourceList, name corev1.ResourceName) bool {
	q, ok := list[name]
	return ok && !q.IsZero()
}

// WholeCores reports whether a quantity of cpu is a whole number of cores, as pods that own their CPUs must ask for.
func WholeCores(cpu resource.Quantity) bool { return cpu.RoundUp(0) }
