package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kind and the resource of ElasticQuotas.
var (
	ElasticQuotaKind     = schema.GroupVersionKind{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Kind: "ElasticQuota"}
	ElasticQuotaResource = ElasticQuotaKind.GroupVersion().WithResource("elasticquotas")
)

// CollectionElasticQuotas is the name of their collection, for Needs.
const CollectionElasticQuotas = "elasticquotas"

// ElasticQuota is a node of the quota tree. Most of its settings are labels and annotations, such as LabelQuotaParent.
// It is namespaced, but pods of other namespaces may belong to it.
type ElasticQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ElasticQuotaSpec   `json:"spec,omitempty"`
	Status ElasticQuotaStatus `json:"status,omitempty"`
}

// ElasticQuotaSpec is the range of an elastic quota.
type ElasticQuotaSpec struct {
	// Min is guaranteed to the quota's pods; Max is the most they may use. A resource that Max does not name is not
	// limited.
	Min ResourceList `json:"min,omitempty"`
	Max ResourceList `json:"max,omitempty"`
}

// ElasticQuotaStatus holds the current usage of an elastic quota. With usher's CRD it is a subresource that usher writes.
// Koordinator's CRD has only Used, and no subresource: every user who may update the quota may update its status.
type ElasticQuotaStatus struct {
	// Used is the total of the requests of the pods of the quota and of those below it; Koordinator's scheduler counts
	// running pods only.
	Used ResourceList `json:"used,omitempty"`
	// Reserved is the total of the requests of pods that usher has admitted and not observed yet; Used does not include it.
	// Limit holds the quota's own limits at admission.
	Reserved ResourceList `json:"reserved,omitempty"`
	Limit    ResourceList `json:"limit,omitempty"`
	// Binds names, for each limited resource, the quota on the path to the top of the tree that has the least left of it.
	Binds map[corev1.ResourceName]string `json:"binds,omitempty"`
}
