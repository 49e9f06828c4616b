package api

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// PodRequest returns what a pod requests of a node, as the scheduler computes it: the sum over containers and sidecars,
// or the maximum of the init containers plus the sidecars started before them if that is more; instead of that the
// pod-level requests, for cpu, memory and huge pages; plus the overhead. HeldRequest also uses the status.
func PodRequest(spec *corev1.PodSpec) corev1.ResourceList {
	return request(&corev1.Pod{Spec: *spec}, podresource.PodResourcesOptions{})
}

// request returns the request of a pod with its overhead.
func request(pod *corev1.Pod, how podresource.PodResourcesOptions) corev1.ResourceList {
	how.ExcludeOverhead = true
	list := podresource.PodRequests(pod, how)
	if pod.Spec.Resources != nil {
		// These quantities belong to the pod, and adding to one with very many digits would change it there.
		list = list.DeepCopy()
	}
	for name, overhead := range pod.Spec.Overhead {
		sum := list[name]
		sum.Add(overhead)
		list[name] = sum
	}
	return list
}

// WholeCores reports whether a quantity of cpu is a whole number of cores, as pods with exclusive CPUs must request.
func WholeCores(cpu resource.Quantity) bool { return cpu.RoundUp(0) }

// FractionOfDevice returns why API servers refuse an amount of a device, with the way out; "" if they store it.
func FractionOfDevice(amount resource.Quantity) string {
	switch above := amount.Value(); {
	case amount.Sign() < 0:
		return "must be 0 or more"
	case amount.MilliValue()%1000 != 0: // the smallest part that API servers store is a thousandth
		return fmt.Sprintf("must be a whole number, because the API server stores no part of a device; ask for %d or %d", above-1, above)
	}
	return ""
}

// WholeCard is a whole card in percent, the unit of gpu, gpu-core and gpu-memory-ratio.
const WholeCard = 100

// GPUCards returns how many cards a container without gpu.shared uses: several only if it requests whole ones, by memory or,
// without a memory amount, by cores.
func GPUCards(amounts map[corev1.ResourceName]resource.Quantity) int64 {
	percent, ok := amounts[ResourceGPUMemoryRatio]
	if !ok {
		percent = amounts[ResourceGPUCore]
	}
	if n := percent.Value(); n > WholeCard && n%WholeCard == 0 {
		return n / WholeCard
	}
	return 1
}
