package admit

import (
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WorkloadKind is a kind of object with a pod template, and says how its pods come to be.
type WorkloadKind struct {
	metav1.GroupVersionKind
	Resource   string
	Template   []string // the path of the template
	Controller string   // the service account in kube-system that creates the pods; "" if it is not known
	complete   func(*podMaker)
}

// WorkloadKinds returns the kinds of Kubernetes with a pod template.
func WorkloadKinds() []WorkloadKind {
	apps, batch, core := schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Group: "batch", Version: "v1"}, corev1.SchemeGroupVersion
	return []WorkloadKind{
		workloadKind(apps, "Deployment", "deployments", "replicaset-controller", (*podMaker).ofDeployment, "spec", "template"),
		workloadKind(apps, "ReplicaSet", "replicasets", "replicaset-controller", (*podMaker).ofOwner, "spec", "template"),
		workloadKind(apps, "StatefulSet", "statefulsets", "statefulset-controller", (*podMaker).ofStatefulSet, "spec", "template"),
		workloadKind(apps, "DaemonSet", "daemonsets", "daemon-set-controller", (*podMaker).ofDaemonSet, "spec", "template"),
		workloadKind(batch, "Job", "jobs", "job-controller", (*podMaker).ofJob, "spec", "template"),
		workloadKind(batch, "CronJob", "cronjobs", "job-controller", (*podMaker).ofCronJob, "spec", "jobTemplate", "spec", "template"),
		workloadKind(core, "ReplicationController", "replicationcontrollers", "replication-controller", (*podMaker).ofOwner, "spec", "template"),
		workloadKind(core, "PodTemplate", "podtemplates", "", func(*podMaker) {}, "template"),
	}
}

func workloadKind(version schema.GroupVersion, kind, resource, controller string, complete func(*podMaker), template ...string) WorkloadKind {
	return WorkloadKind{metav1.GroupVersionKind(version.WithKind(kind)), resource, template, controller, complete}
}

// WorkloadKindOf returns the WorkloadKind of a kind in any version, and false if it has none.
func WorkloadKindOf(kind schema.GroupKind) (WorkloadKind, bool) {
	for _, k := range WorkloadKinds() {
		if k.Group == kind.Group && k.Kind == kind.Kind {
			return k, true
		}
	}
	return WorkloadKind{}, false
}

// PodTemplates matches operations on all objects with a pod template.
func PodTemplates(operations ...admissionv1.Operation) (all []Match) {
	for _, k := range WorkloadKinds() {
		all = append(all, Namespaced(schema.GroupVersionKind(k.GroupVersionKind), operations, k.Resource)...)
	}
	return all
}
