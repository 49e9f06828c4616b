package suite

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PodTypes are the Suite.Tools of a suite for nodes, pods, and objects with a pod template.
type PodTypes struct{}

// Kinds maps these kinds to their Go types.
func (PodTypes) Kinds() map[metav1.GroupVersionKind]func() any {
	core, apps, batch := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	of := func(version schema.GroupVersion, kind string) metav1.GroupVersionKind {
		return metav1.GroupVersionKind(version.WithKind(kind))
	}
	return map[metav1.GroupVersionKind]func() any{
		of(core, "Pod"): func() any { return &corev1.Pod{} }, of(core, "Node"): func() any { return &corev1.Node{} },
		of(apps, "Deployment"): func() any { return &appsv1.Deployment{} }, of(apps, "ReplicaSet"): func() any { return &appsv1.ReplicaSet{} },
		of(apps, "StatefulSet"): func() any { return &appsv1.StatefulSet{} }, of(apps, "DaemonSet"): func() any { return &appsv1.DaemonSet{} },
		of(batch, "Job"): func() any { return &batchv1.Job{} }, of(batch, "CronJob"): func() any { return &batchv1.CronJob{} },
		of(core, "ReplicationController"): func() any { return &corev1.ReplicationController{} },
		of(core, "PodTemplate"):           func() any { return &corev1.PodTemplate{} },
	}
}
