package collections

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
)

// ElasticQuotas are all elastic quotas, and the tree that they make: what the rules and the ledger need of them. What others write all the
// time is not of it: status.used, the record of the ledger, and most of the scheduler's annotations.
var ElasticQuotas = &cluster.Compiled[*quota.Quota, *quota.Tree]{
	Collection: cluster.Collection[*quota.Quota]{
		Name: api.CollectionElasticQuotas, Kind: api.ElasticQuotaKind, Resource: api.ElasticQuotaResource.Resource, Namespaced: true, CRD: true,
		FollowAnnotations: []string{ledger.Annotation, api.AnnotationQuotaChildRequest},
		Keep: cluster.Keep(func(o *elasticQuota) *quota.Quota {
			return quota.Of(&api.ElasticQuota{ObjectMeta: o.ObjectMeta, Spec: o.Spec})
		}),
	},
	Compile: compileQuotas,
}

// elasticQuota is an api.ElasticQuota that does not look into its status: nobody checks that, and nobody here asks for it.
type elasticQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              api.ElasticQuotaSpec `json:"spec"`
}

// compileQuotas makes the tree, and tells what is wrong with it.
func compileQuotas(all cluster.Objects[*quota.Quota]) (*quota.Tree, []error, error) {
	list := make([]*quota.Quota, 0, all.Len())
	for _, q := range all.Each() {
		list = append(list, q)
	}
	tree := quota.NewTree(list)
	return tree, tree.Problems(), nil
}

// QuotaTree returns the tree of all elastic quotas that are stored.
func (q Questions) QuotaTree() (*quota.Tree, error) { return TreeOf(q.Now()) }

// TreeOf returns the tree of all elastic quotas of a snapshot.
func TreeOf(s cluster.Snapshot) (*quota.Tree, error) {
	tree, err := ElasticQuotas.Get(s)
	if err == nil && tree == nil { // an empty tree would let everything in
		err = fmt.Errorf("cluster state: there is no tree of the %s", ElasticQuotas.Name)
	}
	return tree, err
}

// QuotasWithPods is QuotaTree for a caller that asks PodsOf too: it fails as long as pods are not known.
func (q Questions) QuotasWithPods() (*quota.Tree, error) {
	s := q.Now()
	tree, err := TreeOf(s)
	if err == nil {
		_, err = PodRequests.All(s)
	}
	return tree, err
}
