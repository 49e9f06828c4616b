package api

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Translate returns the name of a native resource for pods of a class. ok is false if the name does not change: for
// prod, free and no class, and for everything but cpu and memory.
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

// TranslateAmount converts a quantity of a native resource to the unit of the translated resource: cpu to whole
// milli-cores, rounded up, so that 500m becomes 500, and 1 becomes 1k on the wire; memory is unchanged.
func TranslateAmount(native corev1.ResourceName, q resource.Quantity) resource.Quantity {
	if native == corev1.ResourceCPU {
		return milliCores(q)
	}
	return q.DeepCopy()
}

// milliCores returns a number of cores as an integer number of milli-cores, rounded up and capped at an int64.
func milliCores(cores resource.Quantity) resource.Quantity {
	if cores.CmpInt64(math.MaxInt64/1000) >= 0 { // MilliValue would overflow
		return *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	}
	return *resource.NewQuantity(cores.MilliValue(), resource.DecimalSI)
}
