package requests

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.dev/usher/internal/poddefaults"
)

func fillReplicationController(r *corev1.ReplicationController) {
	if r.Spec.Template != nil {
		if len(r.Spec.Selector) == 0 {
			r.Spec.Selector = r.Spec.Template.Labels
		}
		if len(r.Labels) == 0 {
			r.Labels = r.Spec.Template.Labels
		}
		podSpecDefaults(&r.Spec.Template.Spec)
	}
	poddefaults.Point(&r.Spec.Replicas, 1)
}

func fillDeployment(d *appsv1.Deployment) {
	poddefaults.Point(&d.Spec.Replicas, 1)
	poddefaults.Point(&d.Spec.RevisionHistoryLimit, 10)
	poddefaults.Point(&d.Spec.ProgressDeadlineSeconds, 600)
	poddefaults.Fill(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		poddefaults.Point(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		poddefaults.Point(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		poddefaults.Point(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
	}
	podSpecDefaults(&d.Spec.Template.Spec)
}

func fillStatefulSet(s *appsv1.StatefulSet) {
	poddefaults.Fill(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	poddefaults.Point(&s.Spec.Replicas, 1)
	poddefaults.Point(&s.Spec.RevisionHistoryLimit, 10)
	update := &s.Spec.UpdateStrategy
	if update.Type == "" {
		poddefaults.Point(&update.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	poddefaults.Fill(&update.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if update.Type == appsv1.RollingUpdateStatefulSetStrategyType && update.RollingUpdate != nil {
		poddefaults.Point(&update.RollingUpdate.Partition, 0)
	}
	poddefaults.Point(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	poddefaults.Fill(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	poddefaults.Fill(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range s.Spec.VolumeClaimTemplates {
		claim := &s.Spec.VolumeClaimTemplates[i]
		claim.APIVersion, claim.Kind = "v1", "PersistentVolumeClaim"
		fillClaim(claim)
	}
	podSpecDefaults(&s.Spec.Template.Spec)
}

func fillDaemonSet(d *appsv1.DaemonSet) {
	if d.Annotations[appsv1.DeprecatedTemplateGeneration] == "" {
		d.Annotations = withLabel(d.Annotations, appsv1.DeprecatedTemplateGeneration, "1")
	}
	poddefaults.Point(&d.Spec.RevisionHistoryLimit, 10)
	poddefaults.Fill(&d.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if d.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		poddefaults.Point(&d.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		poddefaults.Point(&d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		poddefaults.Point(&d.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	podSpecDefaults(&d.Spec.Template.Spec)
}

func fillJob(j *batchv1.Job) {
	if len(j.Labels) == 0 {
		j.Labels = j.Spec.Template.Labels
	}
	if j.Spec.Completions == nil && j.Spec.Parallelism == nil {
		poddefaults.Point(&j.Spec.Completions, 1)
	}
	poddefaults.Point(&j.Spec.Parallelism, 1)
	if j.Spec.BackoffLimitPerIndex != nil {
		poddefaults.Point(&j.Spec.BackoffLimit, math.MaxInt32)
	}
	poddefaults.Point(&j.Spec.BackoffLimit, 6)
	poddefaults.Point(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	poddefaults.Point(&j.Spec.Suspend, false)
	poddefaults.Point(&j.Spec.ManualSelector, false)
	replace := batchv1.TerminatingOrFailed
	if j.Spec.PodFailurePolicy != nil {
		replace = batchv1.Failed
	}
	poddefaults.Point(&j.Spec.PodReplacementPolicy, replace)
	fillConditions(j.Spec.PodFailurePolicy)
	podSpecDefaults(&j.Spec.Template.Spec)
}

func fillCronJob(c *batchv1.CronJob) {
	poddefaults.Fill(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	poddefaults.Point(&c.Spec.Suspend, false)
	poddefaults.Point(&c.Spec.SuccessfulJobsHistoryLimit, 3)
	poddefaults.Point(&c.Spec.FailedJobsHistoryLimit, 1)
	fillConditions(c.Spec.JobTemplate.Spec.PodFailurePolicy)
	podSpecDefaults(&c.Spec.JobTemplate.Spec.Template.Spec)
}

func fillConditions(p *batchv1.PodFailurePolicy) {
	if p == nil {
		return
	}
	for i := range p.Rules {
		for n := range p.Rules[i].OnPodConditions {
			poddefaults.Fill(&p.Rules[i].OnPodConditions[n].Status, corev1.ConditionTrue)
		}
	}
}
