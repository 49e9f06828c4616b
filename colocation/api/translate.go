package api

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Translate is what a native resource is called for pods of a class. ok is false if it keeps its name: prod, free and no class,
// and everything but cpu and memory.
func Translate(class PriorityClass, name corev1.ResourceName) (translated corev1.ResourceName, ok bool) {
	switch {
	case class == PriorityBatch && name == corev1.ResourceCPU:
		return ResourceBatchCPU, true
	case class == PriorityBatch && name == corev1.ResourceMemory:
		return ResourceBatchMemory, true
	case class == PriorityMid && name == corev1.ResourceCPU:
		return ResourceMidCPU, true
	case class == PriorityMid && name == corev1.ResourceMemory:
		return ResourceMidMemory, true
	}
	return name, false
}

// TranslateAmount is a quantity of a native resource as a translated resource counts it: cpu in whole milli-cores, rounded up, so
// that 500m is 500 and 1 is 1k on the wire; memory as it is.
func TranslateAmount(native corev1.ResourceName, q resource.Quantity) resource.Quantity {
	if native == corev1.ResourceCPU {
		return milliCores(q)
	}
	return q.DeepCopy()
}

// milliCores is a number of cores as an integer number of milli-cores, rounded up. What does not fit into an int64 is cut to it.
func milliCores(cores resource.Quantity) resource.Quantity {
	if cores.CmpInt64(math.MaxInt64/1000) >= 0 { // MilliValue would overflow
		return *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	}
	return *resource.NewQuantity(cores.MilliValue(), resource.DecimalSI)
}
