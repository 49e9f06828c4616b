package review

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/storable"
)

// The restart policies that pods, the templates of services and those of jobs may have. An empty one is Always.
var (
	anyRestart    = []corev1.RestartPolicy{"", corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	alwaysRestart = []corev1.RestartPolicy{"", corev1.RestartPolicyAlways}
	endingRestart = []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
)

// invalidWorkload checks a template and the selector for its pods, which must select them.
func invalidWorkload(template *corev1.PodTemplateSpec, selector *metav1.LabelSelector) field.ErrorList {
	at := field.NewPath("spec", "template")
	if selector == nil {
		return append(field.ErrorList{field.Required(field.NewPath("spec", "selector"), "")}, invalidTemplate(template, nil, alwaysRestart, at)...)
	}
	return invalidTemplate(template, selector, alwaysRestart, at)
}

func invalidTemplate(template *corev1.PodTemplateSpec, selector *metav1.LabelSelector, restarts []corev1.RestartPolicy, at *field.Path) field.ErrorList {
	problems := metavalidation.ValidateLabels(template.Labels, at.Child("metadata", "labels"))
	problems = append(problems, apivalidation.ValidateAnnotations(template.Annotations, at.Child("metadata", "annotations"))...)
	if compiled, err := metav1.LabelSelectorAsSelector(selector); selector != nil && err == nil && !compiled.Matches(labels.Set(template.Labels)) {
		problems = append(problems, field.Invalid(at.Child("metadata", "labels"), template.Labels, "the selector must match the labels of the template"))
	}
	if !slices.Contains(restarts, template.Spec.RestartPolicy) {
		problems = append(problems, field.NotSupported(at.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, restarts))
	}
	return append(problems, invalidPod(&template.Spec, at.Child("spec"))...)
}

func invalidPod(spec *corev1.PodSpec, at *field.Path) (problems field.ErrorList) {
	if len(spec.Containers) == 0 {
		problems = append(problems, field.Required(at.Child("containers"), "a pod needs a container"))
	}
	if !slices.Contains(anyRestart, spec.RestartPolicy) {
		problems = append(problems, field.NotSupported(at.Child("restartPolicy"), spec.RestartPolicy, anyRestart))
	}
	names := map[string]bool{}
	for i, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if names[c.Name] {
			where := at.Child("containers").Index(i - len(spec.InitContainers))
			if i < len(spec.InitContainers) {
				where = at.Child("initContainers").Index(i)
			}
			problems = append(problems, field.Duplicate(where.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
	problems = append(problems, storable.Containers(spec.InitContainers, true, spec.Volumes, at.Child("initContainers"))...)
	return append(problems, storable.Containers(spec.Containers, false, spec.Volumes, at.Child("containers"))...)
}
