package review

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// withDefaults returns a review with the fields filled in that an API server fills in before it calls validating webhooks, and
// without those that it drops.
func withDefaults(body []byte) []byte {
	var review struct {
		Request struct{ Object, OldObject json.RawMessage }
	}
	if json.Unmarshal(body, &review) != nil {
		return body
	}
	for member, raw := range map[string]json.RawMessage{"object": review.Request.Object, "oldObject": review.Request.OldObject} {
		if filled := filled(raw); filled != nil {
			if with, err := withMember(body, member, filled); err == nil {
				body = with
			}
		}
	}
	return body
}

// filled returns an object as the API server has it, or nil if its kind has no defaults here or it cannot be decoded.
func filled(raw json.RawMessage) json.RawMessage {
	var is metav1.TypeMeta
	if json.Unmarshal(raw, &is) != nil || defaults[is.GroupVersionKind()] == nil {
		return nil
	}
	object := defaults[is.GroupVersionKind()](raw)
	if object == nil {
		return nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	return text
}

// defaults fill in the fields of the kinds of Kubernetes that are reviewed most.
var defaults = map[schema.GroupVersionKind]func(raw []byte) any{
	corev1.SchemeGroupVersion.WithKind("Pod"): filling(func(p *corev1.Pod) {
		fillPod(&p.Spec)
	}),
	corev1.SchemeGroupVersion.WithKind("Namespace"): filling(func(n *corev1.Namespace) {
		if n.Name != "" {
			n.Labels = withLabel(n.Labels, corev1.LabelMetadataName, n.Name)
		}
	}),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"): filling(func(*corev1.ConfigMap) {}),
	corev1.SchemeGroupVersion.WithKind("Secret"): filling(func(s *corev1.Secret) {
		fill(&s.Type, corev1.SecretTypeOpaque)
		for key, value := range s.StringData {
			if s.Data == nil {
				s.Data = map[string][]byte{}
			}
			s.Data[key] = []byte(value)
		}
		s.StringData = nil
	}),
	corev1.SchemeGroupVersion.WithKind("Service"): filling(fillService),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"): filling(func(c *corev1.PersistentVolumeClaim) {
		point(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}),
	appsv1.SchemeGroupVersion.WithKind("Deployment"): filling(func(d *appsv1.Deployment) {
		point(&d.Spec.Replicas, 1)
		point(&d.Spec.RevisionHistoryLimit, 10)
		point(&d.Spec.ProgressDeadlineSeconds, 600)
		if fill(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType); d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			point(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			point(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
			point(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		}
		fillSpec(&d.Spec.Template.Spec)
	}),
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"): filling(func(r *appsv1.ReplicaSet) {
		point(&r.Spec.Replicas, 1)
		fillSpec(&r.Spec.Template.Spec)
	}),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"): filling(func(s *appsv1.StatefulSet) {
		fill(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
		point(&s.Spec.Replicas, 1)
		point(&s.Spec.RevisionHistoryLimit, 10)
		if fill(&s.Spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType); s.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
			point(&s.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
			point(&s.Spec.UpdateStrategy.RollingUpdate.Partition, 0)
		}
		point(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
		fill(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		fill(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		fillSpec(&s.Spec.Template.Spec)
	}),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"): filling(func(d *appsv1.DaemonSet) {
		point(&d.Spec.RevisionHistoryLimit, 10)
		if fill(&d.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType); d.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			point(&d.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			point(&d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			point(&d.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
		fillSpec(&d.Spec.Template.Spec)
	}),
	batchv1.SchemeGroupVersion.WithKind("Job"): filling(func(j *batchv1.Job) {
		if len(j.Labels) == 0 {
			j.Labels = j.Spec.Template.Labels
		}
		if j.Spec.Completions == nil && j.Spec.Parallelism == nil {
			point(&j.Spec.Completions, 1)
		}
		point(&j.Spec.Parallelism, 1)
		if j.Spec.BackoffLimitPerIndex == nil {
			point(&j.Spec.BackoffLimit, 6)
		}
		point(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
		point(&j.Spec.Suspend, false)
		point(&j.Spec.ManualSelector, false)
		replace := batchv1.TerminatingOrFailed
		if j.Spec.PodFailurePolicy != nil {
			replace = batchv1.Failed
		}
		point(&j.Spec.PodReplacementPolicy, replace)
		fillSpec(&j.Spec.Template.Spec)
	}),
	batchv1.SchemeGroupVersion.WithKind("CronJob"): filling(func(c *batchv1.CronJob) {
		fill(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		point(&c.Spec.Suspend, false)
		point(&c.Spec.SuccessfulJobsHistoryLimit, 3)
		point(&c.Spec.FailedJobsHistoryLimit, 1)
		fillSpec(&c.Spec.JobTemplate.Spec.Template.Spec)
	}),
}

// filling returns a function that decodes an object first; it returns nil for an object that cannot be decoded.
func filling[T any](of func(*T)) func(raw []byte) any {
	return func(raw []byte) any {
		object := new(T)
		if decode(raw, object) != nil {
			return nil
		}
		of(object)
		return object
	}
}

// fill sets a field that is empty, point one that is absent.
func fill[T comparable](field *T, value T) {
	var empty T
	if *field == empty {
		*field = value
	}
}

func point[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

func fillService(s *corev1.Service) {
	fill(&s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	fill(&s.Spec.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		fill(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		point(&s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		fill(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
}
