package collections

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// PriorityClasses holds all priority classes.
var PriorityClasses = &cluster.Collection[*PriorityClass]{
	Name: api.CollectionPriorityClasses, Kind: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), Resource: "priorityclasses",
	Keep: cluster.Keep(func(o *schedulingv1.PriorityClass) *PriorityClass {
		return &PriorityClass{o.Value, o.PreemptionPolicy, o.GlobalDefault}
	}),
}

// PriorityClass holds the fields that are kept of a priority class.
type PriorityClass struct {
	Value      int32
	Preemption *corev1.PreemptionPolicy
	Default    bool // of pods that name no class
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

// FillPriority sets what the API server's Priority plugin sets in a new pod: the priority of its class, or of the default one. A
// pod whose class is not known stays as it is.
func (q Questions) FillPriority(pod *admit.Pod) error {
	classes, err := PriorityClasses.All(q.Now())
	if err != nil || pod.Priority() != nil {
		return err
	}
	name := pod.PriorityClassName()
	class, known := classes.Get(name)
	if name == "" {
		name, class, known = defaultOf(classes)
	}
	if known {
		pod.SetPriority(name, class.Value, class.Preemption)
	}
	return nil
}

// defaultOf returns the class of pods that name none: among several, the lowest.
func defaultOf(classes cluster.Objects[*PriorityClass]) (name string, class *PriorityClass, known bool) {
	for key, c := range classes.Each() {
		if c.Default && (!known || c.Value < class.Value || c.Value == class.Value && key < name) {
			name, class, known = key, c, true
		}
	}
	return name, class, known
}
