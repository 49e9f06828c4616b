package review

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/validators/workload"
)

// invalid returns why an API server refuses to create an object, whatever webhooks say, as far as that can be told
// without it: wrong types, names and labels of all kinds, and the pods and pod templates of Kubernetes' own kinds. Nil
// does not mean that it is valid.
func invalid(raw []byte) (problems []string) {
	if problems = undecodable(raw); len(problems) > 0 {
		return problems
	}
	var is metav1.PartialObjectMetadata
	if err := requests.Decode(raw, &is); err != nil {
		return []string{err.Error()}
	}
	if is.Name == "" && is.GenerateName != "" {
		is.Name = workload.GeneratedName(is.GenerateName)
	}
	list := apivalidation.ValidateObjectMetaAccessor(&is, is.Namespace != "", nameOf(is.GroupVersionKind()), field.NewPath("metadata"))
	if check := checks[is.GroupVersionKind()]; check != nil {
		more, err := check(raw)
		if err != nil {
			return []string{err.Error()}
		}
		list = append(list, more...)
	}
	for _, problem := range list {
		problems = append(problems, problem.Error())
	}
	return problems
}

// undecodable returns why an API server cannot decode an object: fields of wrong types.
func undecodable(raw []byte) []string {
	var is metav1.PartialObjectMetadata
	err := requests.Decode(raw, &is)
	if into, unknown := requests.Typed().New(is.GroupVersionKind()); err == nil && unknown == nil {
		err = requests.Decode(raw, into)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

// nameOf returns the check of the names of a kind. Kinds that are not known may have any name that fits into a URL.
func nameOf(kind schema.GroupVersionKind) apivalidation.ValidateNameFunc {
	switch _, known := checks[kind]; {
	case kind.Group == "" && kind.Kind == "Namespace":
		return apivalidation.ValidateNamespaceName
	case kind.Group == "" && kind.Kind == "ServiceAccount":
		return apivalidation.ValidateServiceAccountName
	case kind.Group == "" && kind.Kind == "Service":
		return apivalidation.NameIsDNSLabel
	case known, slices.Contains(subdomains, kind.GroupKind()), strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, "k8s.io"):
		return apivalidation.NameIsDNSSubdomain
	}
	return nameInPath
}

// subdomains are kinds of Kubernetes beside those of checks whose names are DNS subdomains.
var subdomains = []schema.GroupKind{
	{Kind: "ConfigMap"}, {Kind: "Secret"}, {Kind: "Node"}, {Kind: "LimitRange"}, {Kind: "ResourceQuota"}, {Kind: "PersistentVolume"},
	{Kind: "PersistentVolumeClaim"},
	{Kind: "Endpoints"}, {Group: "discovery.k8s.io", Kind: "EndpointSlice"}, {Group: "networking.k8s.io", Kind: "NetworkPolicy"},
	{Group: "networking.k8s.io", Kind: "Ingress"},
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}, {Group: "storage.k8s.io", Kind: "StorageClass"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
	{Group: "coordination.k8s.io", Kind: "Lease"},
}

// nameInPath is the check of names that are only parts of URLs.
func nameInPath(name string, _ bool) []string {
	if name == "." || name == ".." || strings.ContainsAny(name, "/%") {
		return []string{"must be neither . nor .., and have no / and no %"}
	}
	return nil
}

// checks has the kinds of Kubernetes that are pods, or make pods.
var checks = map[schema.GroupVersionKind]func(raw []byte) (field.ErrorList, error){
	corev1.SchemeGroupVersion.WithKind("Pod"): checking(func(p *corev1.Pod) field.ErrorList { return invalidPod(&p.Spec, field.NewPath("spec")) }),
	corev1.SchemeGroupVersion.WithKind("PodTemplate"): checking(func(t *corev1.PodTemplate) field.ErrorList {
		return invalidTemplate(&t.Template, nil, anyRestart, field.NewPath("template"))
	}),
	corev1.SchemeGroupVersion.WithKind("ReplicationController"): checking(func(r *corev1.ReplicationController) field.ErrorList {
		if r.Spec.Template == nil {
			return field.ErrorList{field.Required(field.NewPath("spec", "template"), "")}
		}
		return invalidTemplate(r.Spec.Template, &metav1.LabelSelector{MatchLabels: r.Spec.Selector}, alwaysRestart, field.NewPath("spec", "template"))
	}),
	appsv1.SchemeGroupVersion.WithKind("Deployment"): checking(func(d *appsv1.Deployment) field.ErrorList {
		return invalidWorkload(&d.Spec.Template, d.Spec.Selector)
	}),
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"): checking(func(r *appsv1.ReplicaSet) field.ErrorList {
		return invalidWorkload(&r.Spec.Template, r.Spec.Selector)
	}),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"): checking(func(s *appsv1.StatefulSet) field.ErrorList {
		return invalidWorkload(withClaims(s), s.Spec.Selector)
	}),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"): checking(func(d *appsv1.DaemonSet) field.ErrorList {
		return invalidWorkload(&d.Spec.Template, d.Spec.Selector)
	}),
	batchv1.SchemeGroupVersion.WithKind("Job"): checking(func(j *batchv1.Job) field.ErrorList {
		return invalidTemplate(&j.Spec.Template, nil, endingRestart, field.NewPath("spec", "template"))
	}),
	batchv1.SchemeGroupVersion.WithKind("CronJob"): checking(func(c *batchv1.CronJob) (problems field.ErrorList) {
		if c.Spec.Schedule == "" {
			problems = field.ErrorList{field.Required(field.NewPath("spec", "schedule"), "")}
		}
		return append(problems, invalidTemplate(&c.Spec.JobTemplate.Spec.Template, nil, endingRestart,
			field.NewPath("spec", "jobTemplate", "spec", "template"))...)
	}),
}

// checking returns a check that decodes an object first.
func checking[T any](check func(*T) field.ErrorList) func(raw []byte) (field.ErrorList, error) {
	return func(raw []byte) (field.ErrorList, error) {
		object := new(T)
		if err := requests.Decode(raw, object); err != nil {
			return nil, err
		}
		return check(object), nil
	}
}
