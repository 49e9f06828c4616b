package api

import corev1 "k8s.io/api/core/v1"

// PriorityClass is Koordinator's coarse priority, which decides whether a pod uses native, mid or batch resources.
type PriorityClass string

// The priority classes.
const (
	PriorityNone  PriorityClass = "" // none, or a value outside the ranges
	PriorityProd  PriorityClass = "koord-prod"
	PriorityMid   PriorityClass = "koord-mid"
	PriorityBatch PriorityClass = "koord-batch"
	PriorityFree  PriorityClass = "koord-free"
)

// PriorityClasses returns the classes that LabelPriorityClass can name, the highest first.
func PriorityClasses() []PriorityClass {
	return []PriorityClass{PriorityProd, PriorityMid, PriorityBatch, PriorityFree}
}

// Range returns the values of spec.priority that belong to a class, both ends included. PriorityNone has no range.
func (c PriorityClass) Range() (lowest, highest int32, ok bool) {
	switch c {
	case PriorityProd:
		return 9000, 9999, true
	case PriorityMid:
		return 7000, 7999, true
	case PriorityBatch:
		return 5000, 5999, true
	case PriorityFree:
		return 3000, 3999, true
	}
	return 0, 0, false
}

// priorityClassOf returns the class that a value of spec.priority belongs to.
func priorityClassOf(priority int32) PriorityClass {
	for _, class := range PriorityClasses() {
		if lowest, highest, _ := class.Range(); lowest <= priority && priority <= highest {
			return class
		}
	}
	return PriorityNone
}

// RawPriorityClass returns the class that LabelPriorityClass names if the label is set, PriorityNone if its value is
// not a class, and otherwise the class of spec.priority.
func RawPriorityClass(label string, labelled bool, priority *int32) PriorityClass {
	if labelled {
		if _, _, known := PriorityClass(label).Range(); known {
			return PriorityClass(label)
		}
		return PriorityNone
	}
	if priority == nil {
		return PriorityNone
	}
	return priorityClassOf(*priority)
}

// PriorityClassWithDefault is RawPriorityClass with a default that follows from the QoS class: batch for BE, prod for
// all others. It reads the spec only if the labels name no QoS class either.
func PriorityClassWithDefault(labels map[string]string, priority *int32, spec func() corev1.PodSpec) PriorityClass {
	label, labelled := labels[LabelPriorityClass]
	if class := RawPriorityClass(label, labelled, priority); class != PriorityNone {
		return class
	}
	qos := RawQoS(labels[LabelQoSClass])
	if qos == QoSNone {
		whole := spec()
		qos = defaultQoS(&whole)
	}
	if qos == QoSBE {
		return PriorityBatch
	}
	return PriorityProd
}
