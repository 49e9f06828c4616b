package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// How the API server knows ElasticQuotas.
var (
	ElasticQuotaKind     = schema.GroupVersionKind{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Kind: "ElasticQuota"}
	ElasticQuotaResource = ElasticQuotaKind.GroupVersion().WithResource("elasticquotas")
)

// CollectionElasticQuotas names the collection of all of them, for Needs.
const CollectionElasticQuotas = "elasticquotas"

// ElasticQuota is a node of the quota tree. Most of what it says is in labels and annotations: LabelQuotaParent and the like.
// It lives in a namespace, but counts pods of others too.
type ElasticQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ElasticQuotaSpec   `json:"spec,omitempty"`
	Status ElasticQuotaStatus `json:"status,omitempty"`
}

// ElasticQuotaSpec is the range of an elastic quota.
type ElasticQuotaSpec struct {
	// Min is what the quota's pods get in any case; Max is what they get at most. A resource that Max does not name is not limited.
	Min ResourceList `json:"min,omitempty"`
	Max ResourceList `json:"max,omitempty"`
}

// ElasticQuotaStatus is not a subresource: whoever may write the quota may write it.
type ElasticQuotaStatus struct {
	// Used is what the quota's running pods ask for, as the scheduler counts.
	Used ResourceList `json:"used,omitempty"`
}
