package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kind and the resource of ElasticQuotaProfiles.
var (
	ElasticQuotaProfileKind = schema.GroupVersionKind{
		Group: "quota.koordinator.sh", Version: "v1alpha1", Kind: "ElasticQuotaProfile",
	}
	ElasticQuotaProfileResource = ElasticQuotaProfileKind.GroupVersion().WithResource("elasticquotaprofiles")
)

// CollectionElasticQuotaProfiles is the name of their collection, for Needs.
const CollectionElasticQuotaProfiles = "elasticquotaprofiles"

// ElasticQuotaProfile gives the nodes that it selects a quota tree of their own. It is namespaced and has the label
// LabelQuotaTreeID. Its status is empty.
type ElasticQuotaProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ElasticQuotaProfileSpec `json:"spec,omitempty"`
}

// ElasticQuotaProfileSpec is a root quota and its nodes.
type ElasticQuotaProfileSpec struct {
	// QuotaName names the tree's root quota, which a controller creates in the profile's namespace.
	QuotaName string `json:"quotaName"`
	// QuotaLabels are labels that the root quota gets.
	QuotaLabels map[string]string `json:"quotaLabels,omitempty"`
	// ResourceRatio is the part of the nodes' resources that the root quota has: "0.9".
	ResourceRatio *string `json:"resourceRatio,omitempty"`
	// NodeSelector selects the nodes by their labels.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector"`
}
