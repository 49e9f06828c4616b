package colocation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/internal/metric"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/clustertest"
)

// desk is an API server with the status of quotas, and what replicas find to write.
type desk struct {
	clock  time.Time
	stored map[string]collections.QuotaStatus
	lacks  bool  // its CRD has no status subresource
	err    error // of every request
	now    []ledger.QuotaStatus
	calls  []string
}

func newDesk() *desk {
	return &desk{clock: time.Unix(1e9, 0), stored: map[string]collections.QuotaStatus{}}
}

// stand sets what a quota uses.
func (d *desk) stand(name string, used int64) {
	status := api.ElasticQuotaStatus{Used: api.ResourceList{"cpu": *resource.NewQuantity(used, resource.DecimalSI)}}
	d.now = slices.DeleteFunc(d.now, func(s ledger.QuotaStatus) bool { return s.Quota.Name == name })
	d.now = append(d.now, ledger.QuotaStatus{Quota: types.NamespacedName{Namespace: "org", Name: name}, Status: status})
	slices.SortFunc(d.now, func(a, b ledger.QuotaStatus) int { return strings.Compare(a.Quota.Name, b.Quota.Name) })
	if _, has := d.stored[name]; !has {
		d.stored[name] = collections.QuotaStatus{Version: "1"}
	}
}

// replica returns a writer on the desk, and its log.
func (d *desk) replica() (*statusWriter, *test.Hook) {
	log, hook := test.NewNullLogger()
	log.SetLevel(logrus.InfoLevel)
	log.SetOutput(io.Discard)
	gone := &apierrors.StatusError{}
	gone.ErrStatus.Reason, gone.ErrStatus.Code = "NotFound", http.StatusNotFound
	store := statusStore{
		list: func(_ context.Context, visit func(*api.ElasticQuota)) error {
			d.calls = append(d.calls, "list")
			for _, s := range d.now {
				q := api.ElasticQuota{Status: d.stored[s.Quota.Name].Status}
				q.Namespace, q.Name, q.UID = s.Quota.Namespace, s.Quota.Name, s.UID
				visit(&q)
			}
			return d.err
		},
		supported: func(context.Context) (bool, error) { d.calls = append(d.calls, "discovery"); return !d.lacks, d.err },
		read: func(_ context.Context, key types.NamespacedName) (collections.QuotaStatus, error) {
			d.calls = append(d.calls, "read "+key.Name)
			found, has := d.stored[key.Name]
			if d.err == nil && !has {
				return found, gone
			}
			return found, d.err
		},
		write: func(_ context.Context, key types.NamespacedName, was collections.QuotaStatus, is api.ElasticQuotaStatus) error {
			d.calls = append(d.calls, "write "+key.Name+" "+amount(is.Used["cpu"]))
			switch {
			case d.err != nil:
				return d.err
			case d.lacks:
				return gone
			case d.stored[key.Name].Version != was.Version:
				return apierrors.NewConflict(api.ElasticQuotaResource.GroupResource(), key.Name, nil)
			}
			d.stored[key.Name] = collections.QuotaStatus{Version: was.Version + "1", Status: is, QuotaStatusWriters: collections.QuotaStatusWriters{Written: d.clock.Truncate(time.Second)}}
			return nil
		},
	}
	return &statusWriter{statusStore: store, log: log, now: func() time.Time { return d.clock }, known: map[types.NamespacedName]knownStatus{},
		statuses: func() ([]ledger.QuotaStatus, error) { return d.now, nil }}, hook
}

func amount(q resource.Quantity) string { return q.String() }

// expect lets some time pass, runs a round, and compares what was asked of the API server.
func (d *desk) expect(t *testing.T, w *statusWriter, after time.Duration, want ...string) {
	t.Helper()
	d.clock, d.calls = d.clock.Add(after), nil
	if w.round(t.Context()); !slices.Equal(d.calls, want) {
		t.Errorf("asked %q, want %q", d.calls, want)
	}
}

// TestStatusWrites: a quota is written if it has changed, once in ten seconds, by one replica.
func TestStatusWrites(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	d.stand("b", 1)
	one, _ := d.replica()
	two, _ := d.replica()
	d.expect(t, one, 0, "list", "discovery", "read a", "write a 1", "read b", "write b 1")
	d.expect(t, two, time.Second, "list")
	d.expect(t, one, time.Minute)
	d.expect(t, two, time.Minute)
	d.stand("b", 2)
	d.expect(t, one, 0, "read b", "write b 2")
	d.stand("b", 3)
	d.expect(t, one, 9*time.Second)
	d.expect(t, two, 0, "discovery", "read b") // the other replica has just written
	d.stand("b", 2)
	d.expect(t, one, 2*time.Second)
	d.expect(t, two, 20*time.Second) // it has read that
	d.now = d.now[:1]
	d.expect(t, one, time.Minute)
	d.stand("b", 2)
	delete(d.stored, "b")
	d.expect(t, one, 0, "read b")
}

// TestStatusRace: of two replicas that have read the same version one writes.
func TestStatusRace(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	w, _ := d.replica()
	read := w.read
	w.read = func(ctx context.Context, key types.NamespacedName) (collections.QuotaStatus, error) {
		found, err := read(ctx, key)
		found.Version = "0"
		return found, err
	}
	d.expect(t, w, 0, "list", "discovery", "read a", "write a 1", "read a", "write a 1", "read a", "write a 1")
	w.read = func(ctx context.Context, key types.NamespacedName) (collections.QuotaStatus, error) {
		found, err := read(ctx, key)
		if w.conflicts.Load() == 3 {
			found.Version = "0"
		}
		return found, err
	}
	d.expect(t, w, time.Second, "read a", "write a 1", "read a", "write a 1")
	if w.conflicts.Load() != 4 || w.written.Load() != 1 || w.failures.Load() != 0 {
		t.Error(w.conflicts.Load(), w.written.Load(), w.failures.Load())
	}
}

// TestStatusOfAnother: what another writer has is left alone, is counted, and is written once that writer has gone.
func TestStatusOfAnother(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	d.stored["a"] = collections.QuotaStatus{Version: "1", QuotaStatusWriters: collections.QuotaStatusWriters{Others: "koord-scheduler"}}
	w, logged := d.replica()
	d.expect(t, w, 0, "list", "discovery", "read a")
	d.stand("a", 2)
	d.expect(t, w, 59*time.Second)
	d.expect(t, w, time.Second, "read a")
	checkStatusMetrics(t, w, 0, 0, 0, 1, 0)
	if n := len(logged.AllEntries()); n != 1 {
		t.Errorf("logged %d times", n)
	}
	d.stored["a"] = collections.QuotaStatus{Version: "1"}
	d.expect(t, w, time.Minute, "read a", "write a 2")
	checkStatusMetrics(t, w, 1, 0, 0, 0, 0)
}

// TestStatusWithoutSubresource: the CRD of somebody else is left alone, which is said once; one that is replaced is noticed.
func TestStatusWithoutSubresource(t *testing.T) {
	d := newDesk()
	d.lacks = true
	d.stand("a", 1)
	w, logged := d.replica()
	d.expect(t, w, 0, "list", "discovery")
	d.expect(t, w, 30*time.Second)
	d.expect(t, w, 30*time.Second, "discovery")
	checkStatusMetrics(t, w, 0, 0, 0, 0, 1)
	if n := len(logged.AllEntries()); n != 1 {
		t.Errorf("logged %d times", n)
	}
	d.lacks = false
	d.expect(t, w, time.Minute, "discovery", "read a", "write a 1")
	checkStatusMetrics(t, w, 1, 0, 0, 0, 0)
	d.lacks = true
	d.stand("a", 2)
	d.expect(t, w, time.Minute, "read a", "write a 2")
	d.expect(t, w, 0, "discovery")
	checkStatusMetrics(t, w, 1, 0, 0, 0, 1)
}

// TestStatusFails: a failure is logged once and tried again, beginning with another quota.
func TestStatusFails(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	d.stand("b", 1)
	w, logged := d.replica()
	d.err = errors.New("forbidden")
	d.expect(t, w, 0, "list")
	d.expect(t, w, 9*time.Second)
	d.expect(t, w, time.Second, "discovery") // it goes on without the list
	w.has = true
	d.expect(t, w, 10*time.Second, "read a")
	d.expect(t, w, 10*time.Second, "read b")
	checkStatusMetrics(t, w, 0, 0, 4, 0, 0)
	if n := len(logged.AllEntries()); n != 1 {
		t.Errorf("logged %d times", n)
	}
	d.err = nil
	d.expect(t, w, 10*time.Second, "read a", "write a 1", "read b", "write b 1")
	w.statuses = func() ([]ledger.QuotaStatus, error) { return nil, errors.New("not known yet") }
	d.expect(t, w, time.Hour)
}

// TestStatusRefused: a status that the API server does not take keeps no other quota from being written, and is logged once.
func TestStatusRefused(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	d.stand("b", 1)
	w, logged := d.replica()
	write := w.write
	w.write = func(ctx context.Context, key types.NamespacedName, was collections.QuotaStatus, is api.ElasticQuotaStatus) error {
		if err := write(ctx, key, was, is); err != nil || key.Name != "a" {
			return err
		}
		return apierrors.NewInvalid(api.ElasticQuotaKind.GroupKind(), key.Name, nil)
	}
	d.expect(t, w, 0, "list", "discovery", "read a", "write a 1", "read b", "write b 1")
	d.stored["a"] = collections.QuotaStatus{Version: "1"}
	d.expect(t, w, statusElsewhere-time.Second)
	d.expect(t, w, time.Second, "read a", "write a 1")
	checkStatusMetrics(t, w, 1, 0, 2, 0, 0)
	if n := len(logged.AllEntries()); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// TestStatusEnds: a request has a time limit, and the end of a replica is no failure.
func TestStatusEnds(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	w, logged := d.replica()
	ctx, end := context.WithCancel(t.Context())
	w.supported = func(ctx context.Context) (bool, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("no time limit")
		}
		return true, nil
	}
	w.read = func(ctx context.Context, _ types.NamespacedName) (found collections.QuotaStatus, _ error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("no time limit")
		}
		end()
		return found, ctx.Err()
	}
	w.round(ctx)
	checkStatusMetrics(t, w, 0, 0, 0, 0, 0)
	if n := len(logged.AllEntries()); n != 0 {
		t.Errorf("logged %d times", n)
	}
}

// TestStatusOfOthers: quotas that another writer has are looked at a few at a time.
func TestStatusOfOthers(t *testing.T) {
	d := newDesk()
	for i := range 2 * statusChecks {
		name := fmt.Sprintf("q%02d", i)
		d.stand(name, 1)
		d.stored[name] = collections.QuotaStatus{Version: "1", QuotaStatusWriters: collections.QuotaStatusWriters{Others: "koord-scheduler"}}
	}
	w, _ := d.replica()
	w.round(t.Context())
	d.expect(t, w, statusElsewhere, "read q00", "read q01", "read q02", "read q03", "read q04")
	d.expect(t, w, 0, "read q05", "read q06", "read q07", "read q08", "read q09")
	d.expect(t, w, 0)
}

// TestStatusBehind: a replica does not write a quota of which others know more.
func TestStatusBehind(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	d.stand("b", 1)
	d.now[0].Behind = true
	w, _ := d.replica()
	d.expect(t, w, 0, "list", "discovery", "read b", "write b 1")
	d.now[0].Behind = false
	d.expect(t, w, 0, "read a", "write a 1")
}

// TestStatusErased: a quota that was made anew is written at once, and what somebody has erased, in a few minutes, by one of the replicas.
func TestStatusErased(t *testing.T) {
	d := newDesk()
	d.stand("a", 1)
	w, _ := d.replica()
	d.expect(t, w, 0, "list", "discovery", "read a", "write a 1")
	d.stored["a"], d.now[0].UID = collections.QuotaStatus{Version: "7"}, "anew"
	d.expect(t, w, time.Second, "read a", "write a 1")
	d.stored["a"] = collections.QuotaStatus{Version: "8"}
	d.expect(t, w, statusChecked-time.Second)
	d.expect(t, w, time.Second, "read a", "write a 1")
	d.expect(t, w, statusChecked, "read a")
	for i := range 2 * statusChecks {
		d.stand(fmt.Sprintf("q%02d", i), 1)
	}
	w.round(t.Context())
	d.expect(t, w, statusChecked, "read a", "read q00", "read q01", "read q02", "read q03")
	d.expect(t, w, 0, "read q04", "read q05", "read q06", "read q07", "read q08")
}

// TestStatusAfterRestart: a replica that begins reads only the quotas that differ, however many there are; those made anew do.
func TestStatusAfterRestart(t *testing.T) {
	d := newDesk()
	for i := range 3 * statusBatch {
		d.stand(fmt.Sprintf("q%03d", i), 1)
	}
	one, _ := d.replica()
	for range 3 {
		d.clock = d.clock.Add(statusRest)
		one.round(t.Context())
	}
	d.stand("q149", 2)
	two, _ := d.replica()
	d.expect(t, two, time.Minute, "list", "discovery", "read q149", "write q149 2")
	d.expect(t, two, time.Minute)
	d.expect(t, two, statusChecked, "read q000", "read q001", "read q002", "read q003", "read q004")
}

// TestStatusBatch: a round is bounded, and the next one goes on.
func TestStatusBatch(t *testing.T) {
	d := newDesk()
	for i := range statusBatch + 2 {
		d.stand(fmt.Sprintf("q%02d", i), 1)
	}
	w, _ := d.replica()
	w.round(t.Context())
	if n := w.written.Load(); n != statusBatch {
		t.Errorf("wrote %d", n)
	}
	d.expect(t, w, time.Second, "read q50", "write q50 1", "read q51", "write q51 1")
}

func checkStatusMetrics(t *testing.T, w *statusWriter, written, conflict, failed, writer, subresource int) {
	t.Helper()
	want := fmt.Sprintf(`
# HELP usher_quota_status_withheld What keeps usher from writing the status of quotas: the number of quotas whose status another manager writes (writer), and 1 if the CRD has no status subresource (subresource).
# TYPE usher_quota_status_withheld gauge
usher_quota_status_withheld{reason="subresource"} %d
usher_quota_status_withheld{reason="writer"} %d
# HELP usher_quota_status_writes_total Attempts to write the status of a quota: written, conflict (another write came first; tried again) or failed (also to read it).
# TYPE usher_quota_status_writes_total counter
usher_quota_status_writes_total{result="conflict"} %d
usher_quota_status_writes_total{result="failed"} %d
usher_quota_status_writes_total{result="written"} %d
`, subresource, writer, conflict, failed, written)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metric.Collector(w.collect))
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestStatusOnServer: a writer writes what the ledger counts, by the subresource alone; with a broken watch it writes nothing.
func TestStatusOnServer(t *testing.T) {
	f := clustertest.New(t)
	kind := clustertest.Kind{GroupVersionKind: api.ElasticQuotaKind, Resource: api.ElasticQuotaResource.Resource}
	f.Apply(kind, "org/a", `{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/namespaces":"[\"a\"]"}},"spec":{"max":{"cpu":"4"}}}`)
	f.Apply(clustertest.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods"}, "a/p",
		`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`)
	f.Set(func() { f.StatusOf[kind.Resource] = true })
	var q *quotas
	c, err := cluster.API(&rest.Config{Host: f.URL}, cluster.Options{Catalogue: collections.Catalogue(types.NamespacedName{}, types.NamespacedName{}),
		Needs: []string{api.CollectionElasticQuotas, api.CollectionPodRequests}, Backoff: clustertest.Backoff(),
		Follow: func(c *cluster.Cluster) map[string]cluster.Follower {
			evaluate := []admit.Route{{Chain: admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{{Name: "evaluate-quota"}})}}
			q = newQuotas(suite.Env{Cluster: c, Options: newOptions()}, suite.Opening{Source: "api", Served: evaluate, Log: logrus.New()})
			return collections.Follow(q.ledger)
		}})
	if err != nil {
		t.Fatal(err)
	}
	q.status.round(t.Context()) // nothing is known yet
	go c.Run(t.Context())
	clustertest.Eventually(t, "the quota is known", func() bool { all, err := q.statuses(); return err == nil && len(all) == 1 })
	q.status.round(t.Context())
	f.Set(func() {
		if n := len(f.Single); n != 2 || f.Single[0].Method != "GET" || !strings.HasSuffix(f.Single[1].URI, "/org/elasticquotas/a/status?fieldManager=usher") ||
			!strings.HasSuffix(f.Single[1].Body, `"status":{"binds":{"cpu":"a"},"limit":{"cpu":"4"},"reserved":{},"used":{"cpu":"1"}}}`) {
			t.Errorf("%+v", f.Single)
		}
		f.Refuse["pods"] = http.StatusForbidden
	})
	f.CloseClientConnections()
	clustertest.Eventually(t, "the watch of pods is broken", func() bool { _, err := q.statuses(); return errors.Is(err, admit.ErrNotReady) })
}
