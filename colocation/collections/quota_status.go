package collections

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// QuotaStatus is the status of a quota object as the API server has it.
type QuotaStatus struct {
	Version string
	Status  api.ElasticQuotaStatus
	QuotaStatusWriters
}

// QuotaStatusWriters are those who write the status of a quota, by its managedFields.
type QuotaStatusWriters struct {
	// Others is the name of another writer of what usher would write; empty if there is none.
	Others string
	// OthersUsed is set if status.used is of another writer.
	OthersUsed bool
	// Written is when usher wrote the status last; zero if never.
	Written time.Time
}

// Equal reports whether the status has these amounts and names, however the amounts are written: 1 equals 1000m.
func (s QuotaStatus) Equal(want api.ElasticQuotaStatus) bool {
	same := func(a, b api.ResourceList) bool {
		return len(a) == len(b) && quantity.EqualAmounts(corev1.ResourceList(a), corev1.ResourceList(b))
	}
	has := s.Status
	return same(has.Used, want.Used) && same(has.Reserved, want.Reserved) && same(has.Limit, want.Limit) && maps.Equal(has.Binds, want.Binds)
}

// ReadQuotaStatus reads the current status of a quota from the API server, past any watch, and who writes it.
func (r Records) ReadQuotaStatus(ctx context.Context, name types.NamespacedName) (found QuotaStatus, err error) {
	of := api.ElasticQuotaResource
	raw, err := r.Cluster.Raw(ctx, "apis", of.Group, of.Version, "namespaces", name.Namespace, of.Resource, name.Name)
	if err != nil {
		return found, err
	}
	var q api.ElasticQuota
	if err := json.Unmarshal(raw, &q); err != nil {
		return found, err
	}
	return QuotaStatus{Version: q.ResourceVersion, Status: q.Status, QuotaStatusWriters: WritersOf(&q)}, nil
}

// quotasOfPage is the maximum number of quotas that ListQuotaStatus has in memory.
const quotasOfPage = 500

// ListQuotaStatus calls visit with each quota as the API server has it. After an error it has visited some.
func (r Records) ListQuotaStatus(ctx context.Context, visit func(*api.ElasticQuota)) error {
	for from := ""; ; {
		raw, err := r.Cluster.Page(ctx, api.CollectionElasticQuotas, quotasOfPage, from)
		if err != nil {
			return err
		}
		var page struct {
			metav1.ListMeta `json:"metadata"`
			Items           []api.ElasticQuota `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if from = page.Continue; from == "" {
			return nil
		}
	}
}

// WritersOf returns who writes the status of a quota.
func WritersOf(q *api.ElasticQuota) (found QuotaStatusWriters) {
	for _, m := range q.ManagedFields {
		if m.Manager == cluster.FieldManager {
			if m.Subresource == "status" && m.Time != nil {
				found.Written = m.Time.Time
			}
			continue
		}
		if used, scheduled := writesQuotaStatus(m); used || scheduled {
			found.Others, found.OthersUsed = m.Manager, found.OthersUsed || used
		}
	}
	return found
}

// scheduled are the annotations that Koordinator's scheduler writes together with status.used, and nobody else does.
var scheduled = []string{"quota.scheduling.koordinator.sh/runtime", "quota.scheduling.koordinator.sh/request"}

// writesQuotaStatus reports whether a manager has written status.used, and whether what Koordinator's scheduler writes with it.
func writesQuotaStatus(m metav1.ManagedFieldsEntry) (used, asScheduler bool) {
	var fields struct {
		Metadata struct {
			Annotations map[string]any `json:"f:annotations"`
		} `json:"f:metadata"`
		Status map[string]any `json:"f:status"`
	}
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return false, false
	}
	_, used = fields.Status["f:used"]
	return used, slices.ContainsFunc(scheduled, func(key string) bool { _, has := fields.Metadata.Annotations["f:"+key]; return has })
}

// HasQuotaStatus reports whether the API server's CRD has the subresource by which usher writes the status.
func (r Records) HasQuotaStatus(ctx context.Context) (bool, error) {
	of := api.ElasticQuotaResource
	raw, err := r.Cluster.Raw(ctx, "apis", of.Group, of.Version)
	if err != nil {
		return false, err
	}
	var served metav1.APIResourceList
	if err := json.Unmarshal(raw, &served); err != nil {
		return false, fmt.Errorf("discovery of %s: %w", of.GroupVersion(), err)
	}
	return slices.ContainsFunc(served.APIResources, func(one metav1.APIResource) bool { return one.Name == of.Resource+"/status" }), nil
}

// WriteQuotaStatus writes the status of a quota. It fails with a conflict if the object has changed since it was read.
func (r Records) WriteQuotaStatus(ctx context.Context, name types.NamespacedName, was QuotaStatus, is api.ElasticQuotaStatus) error {
	status := map[string]any{
		"used": change(was.Status.Used, is.Used), "reserved": change(was.Status.Reserved, is.Reserved),
		"limit": change(was.Status.Limit, is.Limit), "binds": change(was.Status.Binds, is.Binds),
	}
	return r.Cluster.WriteStatus(ctx, api.CollectionElasticQuotas, name, was.Version, status)
}

// change returns the JSON merge patch that turns one map into another.
func change[K ~string, V any](was, is map[K]V) map[K]any {
	patch := map[K]any{}
	for key := range was {
		patch[key] = nil
	}
	for key, value := range is {
		patch[key] = value
	}
	return patch
}
