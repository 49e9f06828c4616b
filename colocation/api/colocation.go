package api

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The kind and the resource of ClusterColocationProfiles.
var (
	ClusterColocationProfileKind = schema.GroupVersionKind{
		Group: "config.koordinator.sh", Version: "v1alpha1", Kind: "ClusterColocationProfile",
	}
	ClusterColocationProfileResource = ClusterColocationProfileKind.GroupVersion().WithResource("clustercolocationprofiles")
)

// CollectionColocationProfiles is the name of their collection, for Needs.
const CollectionColocationProfiles = "clustercolocationprofiles"

// ClusterColocationProfile sets fields of the pods and reservations that it selects when they are created. It is
// cluster-scoped. Its status is empty.
type ClusterColocationProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterColocationProfileSpec `json:"spec,omitempty"`
}

// ClusterColocationProfileSpec is a selection, and the changes in the order in which they are applied.
type ClusterColocationProfileSpec struct {
	// NamespaceSelector selects by the labels of the namespace of the pod; nil selects every namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Selector selects by the labels of the pod or reservation; nil selects all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Probability is the share of the selected objects that the profile applies to: 0 to 100, or "NN%"; nil means 100.
	// Workloads are sampled, not pods. The workload of a pod is read from its ownerReferences, which the creator of the
	// pod controls: the probability serves gradual rollouts, not access control.
	Probability *intstr.IntOrString `json:"probability,omitempty"`

	// Labels and Annotations are set, replacing existing values.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// LabelKeysMapping and AnnotationKeysMapping copy the value of one key to another: existing key to new key.
	LabelKeysMapping      map[string]string `json:"labelKeysMapping,omitempty"`
	AnnotationKeysMapping map[string]string `json:"annotationKeysMapping,omitempty"`
	// LabelSuffixes are appended to the values of existing labels: key to suffix.
	LabelSuffixes map[string]string `json:"labelSuffixes,omitempty"`
	// SchedulerName sets spec.schedulerName.
	SchedulerName string `json:"schedulerName,omitempty"`
	// QoSClass sets the label LabelQoSClass. The reference also writes an empty value, which its own CRD refuses.
	QoSClass QoSClass `json:"qosClass,omitempty"`
	// PriorityClassName is the PriorityClass of the pod, which also sets its value and preemption policy.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// KoordinatorPriority sets the label LabelPriority.
	KoordinatorPriority *int32 `json:"koordinatorPriority,omitempty"`
	// Patch is a strategic merge patch, exactly as written: it may have fields that our Go types do not know. See
	// HasPatch.
	Patch json.RawMessage `json:"patch,omitempty"`
}

// HasPatch reports whether there is a patch. The reference's Go clients send null for none.
func (s *ClusterColocationProfileSpec) HasPatch() bool {
	return len(s.Patch) > 0 && string(s.Patch) != "null"
}
