package admit

import (
	"bytes"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// Workload is the view of an object from whose template a controller makes pods: a Deployment, StatefulSet, DaemonSet,
// Job or CronJob.
type Workload struct{ Meta }

// AsWorkload views a document as a Workload.
func AsWorkload(d *document.Document) *Workload { return &Workload{Meta{d.Root()}} }

// Template returns the view of the pod template. Its paths begin with the template's path, such as
// spec.template.metadata.labels.
func (w *Workload) Template() *Pod { return &Pod{Meta{w.template()}} }

// template returns the pod template, which for a CronJob is in its job template.
func (w *Workload) template() *document.Value {
	if w.Kind() == "CronJob" {
		return w.root.At("spec", "jobTemplate", "spec", "template")
	}
	return w.root.At("spec", "template")
}

// WorkloadKind returns the kind of the workload, and false if it is of another kind.
func (w *Workload) WorkloadKind() (WorkloadKind, bool) {
	version, _ := schema.ParseGroupVersion(w.root.Get("apiVersion").Text())
	return WorkloadKindOf(version.WithKind(w.Kind()).GroupKind())
}

// Kind returns the kind of the object.
func (w *Workload) Kind() string { return w.root.Get("kind").Text() }

// LabelPath returns the field path of one label. In a pod template it begins with the template's path.
func (m Meta) LabelPath(key string) *field.Path {
	return m.root.At("metadata", "labels").Path().Key(key)
}

// AnnotationPath returns the field path of one annotation. In a pod template it begins with the template's path.
func (m Meta) AnnotationPath(key string) *field.Path {
	return m.root.At("metadata", "annotations").Path().Key(key)
}

// Copy returns a view of a copy of the pod as it was sent, or of an empty pod if there is none. Edits of the copy are no
// edits of the object under review: a validator may make them to see what a mutator would.
func (p *Pod) Copy() *Pod {
	if d := p.root.Sub(); d != nil {
		return AsPod(d)
	}
	empty, err := document.Parse([]byte(`{}`))
	if err != nil {
		panic(err)
	}
	return AsPod(empty)
}

// Same reports whether two pods have the same JSON.
func (p *Pod) Same(other *Pod) bool { return bytes.Equal(p.root.Bytes(), other.root.Bytes()) }

// WorkloadKind is a kind of object with a pod template.
type WorkloadKind struct {
	metav1.GroupVersionKind
	Resource   string
	Template   []string // the path of the template
	Controller string   // the service account in kube-system that creates the pods; "" if it is not known
}

// WorkloadKinds returns the kinds of Kubernetes with a pod template.
func WorkloadKinds() []WorkloadKind {
	apps, batch, core := schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Group: "batch", Version: "v1"}, corev1.SchemeGroupVersion
	return []WorkloadKind{
		workloadKind(apps, "Deployment", "deployments", "replicaset-controller", "spec", "template"),
		workloadKind(apps, "ReplicaSet", "replicasets", "replicaset-controller", "spec", "template"),
		workloadKind(apps, "StatefulSet", "statefulsets", "statefulset-controller", "spec", "template"),
		workloadKind(apps, "DaemonSet", "daemonsets", "daemon-set-controller", "spec", "template"),
		workloadKind(batch, "Job", "jobs", "job-controller", "spec", "template"),
		workloadKind(batch, "CronJob", "cronjobs", "job-controller", "spec", "jobTemplate", "spec", "template"),
		workloadKind(core, "ReplicationController", "replicationcontrollers", "replication-controller", "spec", "template"),
		workloadKind(core, "PodTemplate", "podtemplates", "", "template"),
	}
}

func workloadKind(version schema.GroupVersion, kind, resource, controller string, template ...string) WorkloadKind {
	return WorkloadKind{metav1.GroupVersionKind(version.WithKind(kind)), resource, template, controller}
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
