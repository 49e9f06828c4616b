package collections

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/colocation/api"
)

// TestQuotaStatus: the status is replaced by its subresource, and nothing else of the object.
func TestQuotaStatus(t *testing.T) {
	f, store := recording(t)
	ctx := t.Context()
	if has, err := store.HasQuotaStatus(ctx); has || err != nil {
		t.Fatal(has, err)
	}
	was, err := store.ReadQuotaStatus(ctx, top)
	if err != nil || was.Version == "" || was.Others != "" || !was.Written.IsZero() || len(was.Status.Used) != 1 {
		t.Fatalf("%+v, %v", was, err)
	}
	is := api.ElasticQuotaStatus{Used: api.ResourceList{"memory": resource.MustParse("2Gi")}, Limit: api.ResourceList{"memory": resource.MustParse("4Gi")}}
	if was.Equal(is) {
		t.Error("equal")
	}
	if err := store.WriteQuotaStatus(ctx, top, was, is); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	f.Set(func() { f.StatusOf["elasticquotas"] = true })
	if has, err := store.HasQuotaStatus(ctx); !has || err != nil {
		t.Fatal(has, err)
	}
	if err := store.WriteQuotaStatus(ctx, top, was, is); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteQuotaStatus(ctx, top, was, is); !apierrors.IsConflict(err) {
		t.Error(err)
	}
	now, err := store.ReadQuotaStatus(ctx, top)
	if err != nil || !now.Equal(is) || now.Version == was.Version {
		t.Errorf("%+v, %v", now, err)
	}
	const path = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/org/elasticquotas/top/status?fieldManager=usher"
	body := `{"metadata":{"resourceVersion":"` + was.Version + `"},"status":{"binds":{},"limit":{"memory":"4Gi"},"reserved":{},"used":{"cpu":null,"memory":"2Gi"}}}`
	if got := f.Single[1]; got.Method != "PATCH" || got.URI != path || got.Body != body || got.ContentType != "application/merge-patch+json" {
		t.Errorf("%+v", got)
	}
	if rest, annotations := newest(t, f); len(annotations) != 1 || rest == "" {
		t.Error(rest, annotations)
	}
}

// TestListQuotaStatus: every quota is visited, page by page, and what keeps usher from a page is an error.
func TestListQuotaStatus(t *testing.T) {
	f, store := recording(t)
	f.Apply(elasticQuotas, "org/second", `{"status":{"used":{"cpu":"2"}}}`)
	f.Apply(elasticQuotas, "other/third", `{"status":{"used":{"cpu":"3"}}}`)
	f.Set(func() { f.Page = 2 })
	seen := map[string]string{}
	visit := func(q *api.ElasticQuota) {
		used := q.Status.Used["cpu"]
		seen[q.Namespace+"/"+q.Name] = used.String()
	}
	if err := store.ListQuotaStatus(t.Context(), visit); err != nil || len(seen) != 3 || seen["org/second"] != "2" || seen["other/third"] != "3" {
		t.Errorf("%v %v", seen, err)
	}
	f.Set(func() { f.Refuse["elasticquotas"] = http.StatusForbidden })
	if err := store.ListQuotaStatus(t.Context(), visit); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
}

// TestQuotaStatusSays: amounts are compared, not their spelling, and what is missing is not zero.
func TestQuotaStatusSays(t *testing.T) {
	of := func(used string, binds string) api.ElasticQuotaStatus {
		s := api.ElasticQuotaStatus{}
		if used != "" {
			s.Used = api.ResourceList{"cpu": resource.MustParse(used)}
		}
		if binds != "" {
			s.Binds = map[corev1.ResourceName]string{"cpu": binds}
		}
		return s
	}
	for _, c := range []struct {
		has, want api.ElasticQuotaStatus
		same      bool
	}{
		{of("1", ""), of("1000m", ""), true}, {of("", ""), of("0", ""), false}, {of("0", ""), of("", ""), false},
		{of("1", "a"), of("1", "b"), false}, {of("1", "a"), of("1", ""), false}, {of("1", "a"), of("1", "a"), true}, {of("1", ""), of("2", ""), false},
	} {
		if got := (QuotaStatus{Status: c.has}).Equal(c.want); got != c.same {
			t.Errorf("%+v and %+v: %v", c.has, c.want, got)
		}
	}
}

// TestQuotaStatusWriters: the writer of a status is the manager in managedFields that owns status.used, or the annotations that
// Koordinator's scheduler writes with it.
func TestQuotaStatusWriters(t *testing.T) {
	for _, c := range []struct {
		fields string
		writes bool
	}{
		{`{"f:status":{"f:used":{".":{},"f:cpu":{}}}}`, true},
		{`{"f:metadata":{"f:annotations":{"f:quota.scheduling.koordinator.sh/runtime":{}}}}`, true},
		{`{"f:metadata":{"f:annotations":{"f:quota.scheduling.koordinator.sh/request":{}}}}`, true},
		{`{"f:metadata":{"f:annotations":{"f:quota.scheduling.koordinator.sh/namespaces":{}}},"f:spec":{"f:max":{}}}`, false},
		{`{"f:status":{"f:conditions":{}}}`, false},
		{`[]`, false},
	} {
		m := metav1.ManagedFieldsEntry{Manager: "koord-scheduler", FieldsV1: metav1.NewFieldsV1(c.fields), Time: &metav1.Time{Time: time.Now()}}
		if used, asScheduler := writesQuotaStatus(m); (used || asScheduler) != c.writes {
			t.Errorf("%s: %v", c.fields, used || asScheduler)
		}
	}
}
