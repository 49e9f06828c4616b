package validators

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var deniedNames = []string{"offensive"}

// names refuses pods whose name contains a denied word. The API server makes a name of generateName before it asks validators; only
// reviews that were written by hand have no name here.
func names(_ *admissionv1.AdmissionRequest, pod *corev1.Pod) (problems field.ErrorList) {
	at, name := field.NewPath("metadata", "name"), pod.Name
	if name == "" {
		at, name = field.NewPath("metadata", "generateName"), pod.GenerateName
	}
	for _, word := range deniedNames {
		if strings.Contains(name, word) {
			problems = append(problems, field.Forbidden(at, fmt.Sprintf("%q contains %q: choose another name", name, word)))
		}
	}
	return problems
}
