package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/api"
	"usher.dev/usher/quota"
)

// elasticQuota is an api.ElasticQuota that does not look into its status: nobody checks that, and nobody here asks for it.
type elasticQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              api.ElasticQuotaSpec `json:"spec"`
}

// keepQuota keeps what the rules and the ledger need. What others write all the time is not of it: status.used, the record of the
// ledger, and most of the scheduler's annotations.
func keepQuota(o *elasticQuota) any {
	inNamespace(&o.ObjectMeta)
	return quota.Of(&api.ElasticQuota{ObjectMeta: o.ObjectMeta, Spec: o.Spec})
}

func keepQuotaProfile(o *api.ElasticQuotaProfile) any {
	inNamespace(&o.ObjectMeta)
	return &api.ElasticQuotaProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: o.Labels}, Spec: o.Spec,
	}
}

// inNamespace places an object that says no namespace, as in a file, where kubectl would. See place.
func inNamespace(meta *metav1.ObjectMeta) {
	if meta.Namespace == "" {
		meta.Namespace = metav1.NamespaceDefault
	}
}

// compileQuotas makes a *quota.Tree of all quotas, and tells what is wrong with it.
func compileQuotas(s *Snapshot) (any, []error) {
	found, err := all[*quota.Quota](s, ElasticQuotas)
	if err != nil {
		return nil, []error{err}
	}
	list := make([]*quota.Quota, 0, s.kinds[ElasticQuotas].objects.size)
	for _, q := range found {
		list = append(list, q)
	}
	tree := quota.Grow(list)
	return tree, tree.Problems()
}
