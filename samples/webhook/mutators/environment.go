package mutators

import (
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var variables = []corev1.EnvVar{{Name: "KUBE", Value: "true"}}

// environment sets the variables in every container that does not set them itself. They come first, because $(NAME) in the value of
// a variable means one that stands before it.
func environment(_ *admissionv1.AdmissionRequest, pod *corev1.Pod) field.ErrorList {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			missing := slices.DeleteFunc(slices.Clone(variables), func(v corev1.EnvVar) bool {
				return slices.ContainsFunc(c.Env, func(has corev1.EnvVar) bool { return has.Name == v.Name })
			})
			c.Env = append(missing, c.Env...)
		}
	}
	return nil
}
