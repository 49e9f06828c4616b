package api

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// How the API server knows ClusterColocationProfiles.
var (
	ClusterColocationProfileKind = schema.GroupVersionKind{
		Group: "config.koordinator.sh", Version: "v1alpha1", Kind: "ClusterColocationProfile",
	}
	ClusterColocationProfileResource = ClusterColocationProfileKind.GroupVersion().WithResource("clustercolocationprofiles")
)

// CollectionColocationProfiles names the collection of all of them, for Needs.
const CollectionColocationProfiles = "clustercolocationprofiles"

// ClusterColocationProfile says what the pods and reservations that it selects get at their creation. It has no namespace.
// Its status is empty.
type ClusterColocationProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterColocationProfileSpec `json:"spec,omitempty"`
}

// ClusterColocationProfileSpec is a selection and, in the order in which they are applied, the changes.
type ClusterColocationProfileSpec struct {
	// NamespaceSelector selects by the labels of a pod's namespace; nil selects every namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Selector selects by the labels of the pod or reservation; nil selects all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Probability is the share of the selected that the profile is applied to: 0 to 100, or "NN%"; nil is 100. Workloads are drawn, not
	// pods, and a pod's workload is taken from its ownerReferences, in which whoever creates pods may write anything: it spreads a
	// change and keeps nobody out, or in.
	Probability *intstr.IntOrString `json:"probability,omitempty"`

	// Labels and Annotations are set, over what is there.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// LabelKeysMapping and AnnotationKeysMapping copy the value of one key to another: existing key to new key.
	LabelKeysMapping      map[string]string `json:"labelKeysMapping,omitempty"`
	AnnotationKeysMapping map[string]string `json:"annotationKeysMapping,omitempty"`
	// LabelSuffixes are put behind the values of labels that are there: key to suffix.
	LabelSuffixes map[string]string `json:"labelSuffixes,omitempty"`
	// SchedulerName becomes spec.schedulerName.
	SchedulerName string `json:"schedulerName,omitempty"`
	// QoSClass becomes the label LabelQoSClass. The reference writes an empty one too, which its own CRD refuses (W33).
	QoSClass QoSClass `json:"qosClass,omitempty"`
	// PriorityClassName names the PriorityClass that the pod gets, with its value and preemption policy.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// KoordinatorPriority becomes the label LabelPriority.
	KoordinatorPriority *int32 `json:"koordinatorPriority,omitempty"`
	// Patch is a strategic merge patch, as it was written: it may hold fields that our Go types do not know. See HasPatch.
	Patch json.RawMessage `json:"patch,omitempty"`
}

// HasPatch reports whether there is a patch. The reference's Go clients send null for none.
func (s *ClusterColocationProfileSpec) HasPatch() bool {
	return len(s.Patch) > 0 && string(s.Patch) != "null"
}
