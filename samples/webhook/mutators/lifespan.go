package mutators

import (
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	lifespanLabel = "acme.com/lifespan-requested" // of a pod: how many days it needs
	lifespanTaint = "acme.com/lifespan-remaining" // of a node: how many days it has left
	lifespanMax   = 14
)

// lifespan lets a pod ask for nodes that live at least some days: it tolerates the taint of every number of days that is enough.
// Without the label it tolerates any.
func lifespan(_ *admissionv1.AdmissionRequest, pod *corev1.Pod) field.ErrorList {
	wanted := []corev1.Toleration{{Key: lifespanTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	if label := pod.Labels[lifespanLabel]; label != "" {
		days, err := strconv.Atoi(label)
		if err != nil || days < 0 || days > lifespanMax {
			return field.ErrorList{field.Invalid(field.NewPath("metadata", "labels").Key(lifespanLabel), label, "must be a number of days from 0 to 14")}
		}
		wanted = nil
		for left := lifespanMax; left >= days; left-- {
			wanted = append(wanted, corev1.Toleration{Key: lifespanTaint, Operator: corev1.TolerationOpEqual,
				Value: strconv.Itoa(left), Effect: corev1.TaintEffectNoSchedule})
		}
	}
	for _, t := range wanted { // those that the pod has already are not repeated
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(has corev1.Toleration) bool { return has.MatchToleration(&t) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
		}
	}
	return nil
}
