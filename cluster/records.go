package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.dev/usher/api"
	"usher.dev/usher/quota"
	"usher.dev/usher/quota/ledger"
)

// fieldManager is who usher is in the managedFields of what it writes.
const fieldManager = "usher"

// Records gives the store of the quota ledger's records on the quota objects of an API server, one request for each call. Nothing
// limits their rate but the ledger. A cluster that is read from files has none, nil: one process has that cluster alone, and the ledger
// remembers in memory.
func (c *Cluster) Records() ledger.Store {
	from, ok := c.source.(*server)
	if !ok {
		return nil
	}
	return &records{c, from.client}
}

// WriteChildRequest sets a quota object's annotation api.AnnotationQuotaChildRequest, which the scheduler writes too: the last writer
// wins. An empty text removes it. The error wraps ledger.ErrGone if there is no such quota. Files cannot be written.
func (c *Cluster) WriteChildRequest(ctx context.Context, name types.NamespacedName, text string) error {
	from, ok := c.source.(*server)
	if !ok {
		return errors.New("cluster: files cannot be written")
	}
	_, err := (&records{c, from.client}).patch(ctx, name, "", api.AnnotationQuotaChildRequest, text)
	return err
}

// records implements ledger.Store.
type records struct {
	c      *Cluster
	client rest.Interface
}

// Read gets the object from etcd: a request without a resourceVersion is not answered from a cache that may be behind.
func (r *records) Read(ctx context.Context, name types.NamespacedName) (ledger.Object, error) {
	raw, err := at(r.client.Get(), name).DoRaw(ctx)
	return r.object(name, raw, err)
}

// Write replaces the record of the version.
func (r *records) Write(ctx context.Context, name types.NamespacedName, version, record string) (ledger.Object, error) {
	if version == "" { // a patch that names none would overwrite whatever is there
		return ledger.Object{}, fmt.Errorf("quota %s: no resourceVersion is known: %w", name, ledger.ErrConflict)
	}
	return r.patch(ctx, name, version, ledger.Annotation, record)
}

// Pod asks etcd for a pod's resourceVersion.
func (r *records) Pod(ctx context.Context, name types.NamespacedName) (string, error) {
	raw, err := r.client.Get().AbsPath("/api/v1/namespaces", name.Namespace, "pods", name.Name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("pod %s: %w: %w", name, ledger.ErrGone, err)
	}
	var found metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	return found.ResourceVersion, err
}

// patch sets one annotation, or removes it if the text is empty, and nothing else. With a version, only that version is patched.
func (r *records) patch(ctx context.Context, name types.NamespacedName, version, annotation, text string) (ledger.Object, error) {
	var patch struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion,omitempty"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	patch.Metadata.ResourceVersion = version
	patch.Metadata.Annotations = map[string]*string{annotation: nil}
	if text != "" {
		patch.Metadata.Annotations[annotation] = &text
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return ledger.Object{}, err
	}
	raw, err := at(r.client.Patch(types.MergePatchType), name).Param("fieldManager", fieldManager).Body(body).DoRaw(ctx)
	return r.object(name, raw, err)
}

// at makes a request one for a quota object.
func at(request *rest.Request, name types.NamespacedName) *rest.Request {
	kind := api.ElasticQuotaResource
	return request.AbsPath("/apis", kind.Group, kind.Version, "namespaces", name.Namespace, kind.Resource, name.Name).
		SetHeader("Accept", "application/json")
}

// object reads an answer. An object whose newest state does not decode counts as it last did, here as in a snapshot.
func (r *records) object(name types.NamespacedName, raw []byte, err error) (ledger.Object, error) {
	var i *item
	if err == nil {
		i, err = rows[ElasticQuotas].decode(raw)
	}
	switch {
	case apierrors.IsConflict(err):
		return ledger.Object{}, fmt.Errorf("quota %s: %w: %w", name, ledger.ErrConflict, err)
	case apierrors.IsNotFound(err):
		return ledger.Object{}, fmt.Errorf("quota %s: %w: %w", name, ledger.ErrGone, err)
	case err != nil:
		return ledger.Object{}, fmt.Errorf("quota %s: %w", name, err)
	}
	q, ok := i.kept.(*quota.Quota)
	if !ok {
		if q, ok, _ = find[*quota.Quota](r.c.Now(), ElasticQuotas, i.key()); !ok {
			return ledger.Object{}, fmt.Errorf("quota %s: %w", name, i.err)
		}
	}
	return ledger.Object{Quota: q, Version: i.ResourceVersion, Record: i.record, ChildRequest: i.childRequest}, nil
}
