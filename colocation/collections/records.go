package collections

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
)

// Records stores the quota ledger's records on the quota objects of an API server, with one request per call. Only the
// ledger limits their rate. It implements ledger.Store. It is not for files: such a cluster has a single process, and
// the ledger keeps its records in memory.
type Records struct{ Cluster *cluster.Cluster }

// WriteRule returns the permission that writing records, WriteChildRequest and WriteQuotaStatus need.
func WriteRule() rbacv1.PolicyRule {
	quotas := api.ElasticQuotaResource
	return rbacv1.PolicyRule{APIGroups: []string{quotas.Group}, Resources: []string{quotas.Resource, quotas.Resource + "/status"},
		Verbs: []string{"patch"}}
}

// Read implements ledger.Store.
func (r Records) Read(ctx context.Context, name types.NamespacedName) (ledger.Object, error) {
	found, err := r.Cluster.Read(ctx, api.CollectionElasticQuotas, name)
	return recordOf(name, found, err)
}

// Write implements ledger.Store.
func (r Records) Write(ctx context.Context, name types.NamespacedName, version, record string) (ledger.Object, error) {
	if version == "" { // a patch without a version would overwrite any state
		return ledger.Object{}, fmt.Errorf("quota %s: no resourceVersion is known: %w", name, ledger.ErrConflict)
	}
	written, err := r.Cluster.Annotate(ctx, api.CollectionElasticQuotas, name, version, ledger.Annotation, record)
	return recordOf(name, written, err)
}

// Pod implements ledger.Store.
func (r Records) Pod(ctx context.Context, name types.NamespacedName) (string, error) {
	version, err := r.Cluster.Version(ctx, api.CollectionPodRequests, name)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("pod %s: %w: %w", name, ledger.ErrGone, err)
	}
	return version, err
}

// Pods implements ledger.Store.
func (r Records) Pods(ctx context.Context) (string, error) {
	return r.Cluster.Latest(ctx, api.CollectionPodRequests)
}

// WriteChildRequest sets a quota object's annotation api.AnnotationQuotaChildRequest, which the scheduler writes too:
// the last writer wins. An empty text removes it. The error wraps ledger.ErrGone if there is no such quota.
func (r Records) WriteChildRequest(ctx context.Context, name types.NamespacedName, text string) error {
	written, err := r.Cluster.Annotate(ctx, api.CollectionElasticQuotas, name, "", api.AnnotationQuotaChildRequest, text)
	_, err = recordOf(name, written, err)
	return err
}

// recordOf converts an answer of the API server.
func recordOf(name types.NamespacedName, o cluster.Object, err error) (ledger.Object, error) {
	switch {
	case apierrors.IsConflict(err):
		return ledger.Object{}, fmt.Errorf("quota %s: %w: %w", name, ledger.ErrConflict, err)
	case apierrors.IsNotFound(err):
		return ledger.Object{}, fmt.Errorf("quota %s: %w: %w", name, ledger.ErrGone, err)
	case err != nil:
		return ledger.Object{}, fmt.Errorf("quota %s: %w", name, err)
	}
	return ledger.Object{Quota: o.Kept.(*quota.Quota), Version: o.Version,
		Record: o.Annotations[ledger.Annotation], ChildRequest: o.Annotations[api.AnnotationQuotaChildRequest]}, nil
}
