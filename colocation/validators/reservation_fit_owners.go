package validators

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"usher.dev/usher/colocation/api"
)

// offeredTo reports whether the scheduler considers a reservation for a pod: it can read the reservation, and an owner
// selects the pod.
func offeredTo(r *api.Reservation, pod *corev1.Pod) (offered bool) {
	if _, err := restrictedTo(r); err != nil {
		return false
	}
	for i := range r.Spec.Owners {
		owner := &r.Spec.Owners[i]
		selector, err := ownerSelector(owner.LabelSelector)
		if err != nil {
			return false // for all pods, whatever the other owners select
		}
		offered = offered || selector.Matches(labels.Set(pod.Labels)) && isObject(owner.Object, pod) && isControlledBy(owner.Controller, pod)
	}
	return offered
}

// ownerSelector compiles the selector of an owner. The scheduler does not validate a selector that has matchLabels only.
func ownerSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	switch {
	case s == nil:
		return labels.Everything(), nil
	case len(s.MatchExpressions) == 0:
		return labels.SelectorFromSet(s.MatchLabels), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// isObject reports whether a reference, of which the empty parts match anything, is to a pod.
func isObject(ref *corev1.ObjectReference, pod *corev1.Pod) bool {
	return ref == nil || allows(ref.UID, pod.UID) && allows(ref.Name, pod.Name) && allows(ref.Namespace, pod.Namespace) && allows(ref.APIVersion, "v1")
}

// isControlledBy reports whether a pod has an owner reference to a workload.
func isControlledBy(c *api.ReservationController, pod *corev1.Pod) bool {
	if c == nil {
		return true
	}
	return allows(c.Namespace, pod.Namespace) && slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool {
		return allows(c.UID, o.UID) && allows(c.Name, o.Name) && allows(c.Kind, o.Kind) && allows(c.APIVersion, o.APIVersion) &&
			(c.Controller == nil || o.Controller != nil && *c.Controller == *o.Controller)
	})
}

func allows[T ~string](wanted, is T) bool { return wanted == "" || wanted == is }

// repels reports whether a reservation that an affinity does not name is closed, or has a taint that is not tolerated.
func (a affinity) repels(r *api.Reservation) bool {
	taints := r.Spec.Taints
	if r.Spec.Unschedulable || r.DeletionTimestamp != nil {
		taints = append(slices.Clip(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	return a.name == "" && slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(a.tolerations, func(by corev1.Toleration) bool {
			return by.ToleratesTaint(klog.Logger{}, &t, false)
		})
	})
}
