package api

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QoSClass is Koordinator's quality of service, the value of LabelQoSClass.
type QoSClass string

// The QoS classes.
const (
	QoSNone   QoSClass = ""       // none, or not a class
	QoSLSE    QoSClass = "LSE"    // latency sensitive, with exclusive CPUs
	QoSLSR    QoSClass = "LSR"    // latency sensitive, with CPUs that only BE pods may use while they are idle
	QoSLS     QoSClass = "LS"     // latency sensitive, with shared CPUs
	QoSBE     QoSClass = "BE"     // best effort, on what others do not use
	QoSSystem QoSClass = "SYSTEM" // for the needs of a node itself
)

// QoSClasses returns the classes that LabelQoSClass can name.
func QoSClasses() []QoSClass { return []QoSClass{QoSLSE, QoSLSR, QoSLS, QoSBE, QoSSystem} }

// RawQoS returns the class that a value of LabelQoSClass names; QoSNone if it is not a class.
func RawQoS(label string) QoSClass {
	if class := QoSClass(label); slices.Contains(QoSClasses(), class) {
		return class
	}
	return QoSNone
}

// defaultQoS returns the class of a pod without a label, which follows from the Kubernetes QoS class.
func defaultQoS(spec *corev1.PodSpec) QoSClass {
	switch kubernetesQoS(spec) {
	case corev1.PodQOSGuaranteed:
		return QoSLSR
	case corev1.PodQOSBurstable:
		return QoSLS
	}
	return QoSBE
}

// kubernetesQoS returns the QoS class that the kubelet will assign to a pod. It is computed from the spec alone: in a
// pod under review, status.qosClass was written by its author.
func kubernetesQoS(spec *corev1.PodSpec) corev1.PodQOSClass {
	var requests, limits qosAmounts
	limited := true // everything has limits for both cpu and memory
	for requirements := range qosRequirements(spec) {
		requests.add(requirements.Requests)
		limits.add(requirements.Limits)
		limited = limited && isPositive(requirements.Limits, corev1.ResourceCPU) &&
			isPositive(requirements.Limits, corev1.ResourceMemory)
	}
	switch {
	case requests.isZero() && limits.isZero():
		return corev1.PodQOSBestEffort
	case limited && requests.equal(limits):
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// qosRequirements returns all requirements that count: the pod-level requirements if there are any, otherwise those of
// the containers of both kinds.
func qosRequirements(spec *corev1.PodSpec) iter.Seq[*corev1.ResourceRequirements] {
	return func(yield func(*corev1.ResourceRequirements) bool) {
		if spec.Resources != nil {
			yield(spec.Resources)
			return
		}
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range containers {
				if !yield(&containers[i].Resources) {
					return
				}
			}
		}
	}
}

// qosAmounts are the sums of the two resources that determine the QoS class.
type qosAmounts struct{ cpu, memory resource.Quantity }

func (a *qosAmounts) add(list corev1.ResourceList) {
	if isPositive(list, corev1.ResourceCPU) {
		a.cpu.Add(list[corev1.ResourceCPU])
	}
	if isPositive(list, corev1.ResourceMemory) {
		a.memory.Add(list[corev1.ResourceMemory])
	}
}

func (a *qosAmounts) isZero() bool { return a.cpu.IsZero() && a.memory.IsZero() }

func (a *qosAmounts) equal(b qosAmounts) bool {
	return a.cpu.Cmp(b.cpu) == 0 && a.memory.Cmp(b.memory) == 0
}

func isPositive(list corev1.ResourceList, name corev1.ResourceName) bool {
	q, ok := list[name]
	return ok && q.Sign() > 0
}
