package collections

import (
	"cmp"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
)

// ElasticQuotas holds what the rules and the ledger need of all elastic quotas, compiled to the tree. It leaves out
// what changes all the time: status.used, the record of the ledger, and most of the scheduler's annotations.
var ElasticQuotas = &cluster.Compiled[*quota.Quota, *quota.Tree]{
	Collection: cluster.Collection[*quota.Quota]{
		Name: api.CollectionElasticQuotas, Kind: api.ElasticQuotaKind, Resource: api.ElasticQuotaResource.Resource, Namespaced: true, CRD: true,
		FollowAnnotations: []string{ledger.Annotation, api.AnnotationQuotaChildRequest},
		Keep: cluster.Keep(func(o *elasticQuota) *quota.Quota {
			return quota.Of(&api.ElasticQuota{ObjectMeta: o.ObjectMeta, Spec: o.Spec})
		}),
	},
	Compile: compileQuotas,
	Update:  updateQuotas,
}

// elasticQuota is an api.ElasticQuota that does not decode its status: it is not validated, and not used here.
type elasticQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              api.ElasticQuotaSpec `json:"spec"`
}

// compileQuotas builds the tree and returns its flaws.
func compileQuotas(all cluster.Objects[*quota.Quota]) (*quota.Tree, []error, error) {
	list := make([]*quota.Quota, 0, all.Len())
	for _, q := range all.Each() {
		list = append(list, q)
	}
	tree := quota.NewTree(list)
	return tree, tree.Problems(), nil
}

// updateQuotas changes the tree.
func updateQuotas(before *quota.Tree, changed iter.Seq2[*quota.Quota, *quota.Quota]) (*quota.Tree, []error) {
	changes := map[types.NamespacedName]*quota.Quota{}
	for was, is := range changed {
		changes[cmp.Or(is, was).Identity()] = is
	}
	tree := before.With(changes)
	return tree, tree.Problems()
}

// QuotaTree returns the tree of all stored elastic quotas.
func (q Questions) QuotaTree() (*quota.Tree, error) { return TreeOf(q.Now()) }

// TreeOf returns the tree of all elastic quotas in a snapshot.
func TreeOf(s cluster.Snapshot) (*quota.Tree, error) {
	tree, err := ElasticQuotas.Get(s)
	if err == nil && tree == nil { // an empty tree would admit everything
		err = fmt.Errorf("cluster state: there is no tree of the %s", ElasticQuotas.Name)
	}
	return tree, err
}

// QuotasWithPods is QuotaTree for a caller that also uses PodsOf: it fails until pods have been listed.
func (q Questions) QuotasWithPods() (*quota.Tree, error) {
	s := q.Now()
	tree, err := TreeOf(s)
	if err == nil {
		_, err = PodRequests.All(s)
	}
	return tree, err
}
