package collections

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// PriorityClasses holds all priority classes.
var PriorityClasses = &cluster.Collection[*PriorityClass]{
	Name: api.CollectionPriorityClasses, Kind: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), Resource: "priorityclasses",
	Keep: cluster.Keep(func(o *schedulingv1.PriorityClass) *PriorityClass { return &PriorityClass{o.Value, o.PreemptionPolicy} }),
}

// PriorityClass holds the fields that are kept of a priority class.
type PriorityClass struct {
	Value      int32
	Preemption *corev1.PreemptionPolicy
}

// PriorityClass returns the value and the preemption policy of a class. known is false if the class does not exist:
// pods may name such classes.
func (q Questions) PriorityClass(name string) (value int32, preemption *corev1.PreemptionPolicy, known bool, err error) {
	class, known, err := PriorityClasses.Find(q.Now(), name)
	if known {
		value, preemption = class.Value, class.Preemption
	}
	return value, preemption, known, err
}
