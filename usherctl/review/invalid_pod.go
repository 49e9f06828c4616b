package review

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/usherctl/review/podvalidation"
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

func invalidTemplate(template *corev1.PodTemplateSpec, selector *metav1.LabelSelector, restarts []corev1.RestartPolicy,
	at *field.Path) field.ErrorList {
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
	problems = append(problems, invalidVolumes(spec, at)...)
	if spec.HostNetwork {
		problems = append(problems, invalidHostPorts(spec.Containers, at.Child("containers"))...)
	}
	problems = append(problems, podvalidation.Containers(spec.InitContainers, true, spec.Volumes, at.Child("initContainers"))...)
	return append(problems, podvalidation.Containers(spec.Containers, false, spec.Volumes, at.Child("containers"))...)
}

// invalidVolumes checks that volumes have different names, and that there is one for each mount and device.
func invalidVolumes(spec *corev1.PodSpec, at *field.Path) (problems field.ErrorList) {
	known := map[string]bool{}
	for i, v := range spec.Volumes {
		if known[v.Name] {
			problems = append(problems, field.Duplicate(at.Child("volumes").Index(i).Child("name"), v.Name))
		}
		known[v.Name] = true
	}
	check := func(name string, at *field.Path) {
		if !known[name] {
			problems = append(problems, field.NotFound(at.Child("name"), name))
		}
	}
	each := func(containers []corev1.Container, at *field.Path) {
		for i, c := range containers {
			for n, m := range c.VolumeMounts {
				check(m.Name, at.Index(i).Child("volumeMounts").Index(n))
			}
			for n, d := range c.VolumeDevices {
				check(d.Name, at.Index(i).Child("volumeDevices").Index(n))
			}
		}
	}
	each(spec.InitContainers, at.Child("initContainers"))
	each(spec.Containers, at.Child("containers"))
	return problems
}

// invalidHostPorts checks containers that have the network of their node, where a hostPort that is left out is the containerPort.
func invalidHostPorts(containers []corev1.Container, at *field.Path) (problems field.ErrorList) {
	for i, c := range containers {
		for n, p := range c.Ports {
			if p.HostPort != 0 && p.HostPort != p.ContainerPort {
				problems = append(problems, field.Invalid(at.Index(i).Child("ports").Index(n).Child("hostPort"), p.HostPort,
					"must match containerPort when hostNetwork is true"))
			}
		}
	}
	return problems
}

// withClaims returns the template of a StatefulSet with the volumes of its claims, which replace others of the same names.
func withClaims(s *appsv1.StatefulSet) *corev1.PodTemplateSpec {
	template := s.Spec.Template.DeepCopy()
	for _, claim := range s.Spec.VolumeClaimTemplates {
		template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == claim.Name })
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: claim.Name})
	}
	return template
}
