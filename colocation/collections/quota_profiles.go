package collections

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// ElasticQuotaProfiles holds the name, namespace, labels and spec of all ElasticQuotaProfiles.
var ElasticQuotaProfiles = &cluster.Collection[*api.ElasticQuotaProfile]{
	Name: api.CollectionElasticQuotaProfiles, Kind: api.ElasticQuotaProfileKind, Resource: api.ElasticQuotaProfileResource.Resource,
	Namespaced: true, CRD: true,
	Keep: cluster.Keep(func(o *api.ElasticQuotaProfile) *api.ElasticQuotaProfile {
		return &api.ElasticQuotaProfile{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: o.Labels}, Spec: o.Spec,
		}
	}),
}

// QuotaProfiles returns all ElasticQuotaProfiles, sorted by namespace and name, in a new list.
func (q Questions) QuotaProfiles() ([]*api.ElasticQuotaProfile, error) {
	all, err := ElasticQuotaProfiles.All(q.Now())
	if err != nil {
		return nil, err
	}
	return all.Sorted(), nil
}
