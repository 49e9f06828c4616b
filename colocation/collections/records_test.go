package collections

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/test/clustertest"
)

const aQuota = `{"metadata":{"labels":{"quota.scheduling.koordinator.sh/is-parent":"true"},"annotations":{"a":"b"}},"spec":{"max":{"cpu":"4"}},"status":{"used":{"cpu":"1"}}}`

var top = types.NamespacedName{Namespace: "org", Name: "top"}

// recording returns a server with the quota top, and the records of a cluster on it. There is no watch.
func recording(t *testing.T) (*clustertest.Server, Records) {
	t.Helper()
	f := clustertest.New(t)
	f.Apply(elasticQuotas, top.String(), aQuota)
	_, c := watching(t, f, keeping())
	return f, recordsOf(c)
}

var _ ledger.Store = Records{}

func recordsOf(c *cluster.Cluster) Records {
	return Records{Cluster: c}
}

// newest returns top as the server has it, without the fields that a write must change.
func newest(t *testing.T, f *clustertest.Server) (text string, annotations map[string]string) {
	t.Helper()
	var o map[string]any
	f.Set(func() {
		if err := json.Unmarshal(f.Stored["elasticquotas"][top.String()], &o); err != nil {
			t.Fatal(err)
		}
	})
	meta := o["metadata"].(map[string]any)
	annotations = map[string]string{}
	for key, value := range meta["annotations"].(map[string]any) {
		annotations[key] = value.(string)
	}
	delete(meta, "annotations")
	delete(meta, "resourceVersion")
	rest, _ := json.Marshal(o)
	return string(rest), annotations
}

func TestRecords(t *testing.T) {
	ctx := t.Context()
	f, store := recording(t)
	before, _ := newest(t, f)
	first, err := store.Read(ctx, top)
	if err != nil || first.Record != "" || first.Version == "" || !first.Quota.IsParent || first.Quota.Name != "top" || first.Quota.Max.Cpu().Value() != 4 {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := store.Write(ctx, top, first.Version, `{"pods":["<&>"]}`)
	if err != nil || second.Record != `{"pods":["<&>"]}` || second.Version == first.Version || second.Quota.Max.Cpu().Value() != 4 {
		t.Fatalf("%+v %v", second, err)
	}
	after, annotations := newest(t, f)
	if after != before || len(annotations) != 2 || annotations["a"] != "b" || annotations[ledger.Annotation] != second.Record {
		t.Errorf("%s: %v\nbefore: %s", after, annotations, before)
	}
	if again, err := store.Read(ctx, top); err != nil || again.Version != second.Version || again.Record != second.Record {
		t.Errorf("%+v %v", again, err)
	}
	third, err := store.Write(ctx, top, second.Version, "")
	if _, annotations = newest(t, f); err != nil || third.Record != "" || len(annotations) != 1 {
		t.Errorf("%+v %v, left: %v", third, err, annotations)
	}
	const path = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/org/elasticquotas/top"
	const merge = "application/merge-patch+json"
	want := []clustertest.Request{
		{Method: "GET", URI: path},
		{Method: "PATCH", URI: path + "?fieldManager=usher", ContentType: merge, Body: `{"metadata":{"resourceVersion":"` + first.Version + `","annotations":{"usher.dev/reservations":"{\"pods\":[\"\u003c\u0026\u003e\"]}"}}}`},
		{Method: "GET", URI: path},
		{Method: "PATCH", URI: path + "?fieldManager=usher", ContentType: merge, Body: `{"metadata":{"resourceVersion":"` + second.Version + `","annotations":{"usher.dev/reservations":null}}}`},
	}
	for i, got := range f.Single {
		if got.Accept = ""; got != want[i] {
			t.Errorf("request %d:\n%v, want\n%v", i, got, want[i])
		}
	}
}

// TestExists: a quota is found by its name alone, in any namespace, and only its metadata is sent.
func TestExists(t *testing.T) {
	f, store := recording(t)
	for name, want := range map[string]bool{"top": true, "to": false, "org": false, "absent": false} {
		if got, err := store.Cluster.Exists(t.Context(), "elasticquotas", name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	var accept string
	f.Set(func() { accept = f.Accept["elasticquotas"]; f.Refuse["elasticquotas"] = http.StatusForbidden })
	if !strings.Contains(accept, "as=PartialObjectMetadataList") {
		t.Errorf("Accept: %s", accept)
	}
	if got, err := store.Cluster.Exists(t.Context(), "elasticquotas", "top"); err == nil || got {
		t.Errorf("refused: %v, %v", got, err)
	}
	if _, err := store.Cluster.Exists(t.Context(), "unicorns", "top"); err == nil {
		t.Error("an undeclared collection")
	}
}

// TestRecordsFail: the error says whether to start again, to give up, or that the write may have happened.
func TestRecordsFail(t *testing.T) {
	ctx := t.Context()
	f, store := recording(t)
	now, err := store.Read(ctx, top)
	if err != nil {
		t.Fatal(err)
	}
	f.Apply(elasticQuotas, top.String(), aQuota) // another write in between
	for _, version := range []string{now.Version, ""} {
		if _, err := store.Write(ctx, top, version, "r"); !errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrGone) || !strings.Contains(err.Error(), "quota org/top: ") {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if _, annotations := newest(t, f); annotations[ledger.Annotation] != "" {
		t.Error("the conflicting record was written")
	}
	absent := types.NamespacedName{Namespace: "org", Name: "absent"}
	_, read := store.Read(ctx, absent)
	_, write := store.Write(ctx, absent, now.Version, "r")
	for _, err := range []error{read, write, store.WriteChildRequest(ctx, absent, "{}")} {
		if !errors.Is(err, ledger.ErrGone) || errors.Is(err, ledger.ErrConflict) {
			t.Error(err)
		}
	}
	f.Set(func() { f.Refuse["elasticquotas"] = http.StatusForbidden })
	_, read = store.Read(ctx, top)
	_, write = store.Write(ctx, top, now.Version, "r")
	for _, err := range []error{read, write} {
		if err == nil || errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrGone) || !strings.Contains(err.Error(), "quota org/top: ") {
			t.Error(err)
		}
	}
}

// TestRecordsInTime: calls end with their context.
func TestRecordsInTime(t *testing.T) {
	f, store := recording(t)
	f.Set(func() { f.Hang = true })
	for name, do := range map[string]func(context.Context) error{
		"read":  func(ctx context.Context) error { _, err := store.Read(ctx, top); return err },
		"write": func(ctx context.Context) error { _, err := store.Write(ctx, top, "1", "r"); return err },
		"child": func(ctx context.Context) error { return store.WriteChildRequest(ctx, top, "{}") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestWriteChildRequest(t *testing.T) {
	ctx := t.Context()
	f, store := recording(t)
	before, _ := newest(t, f)
	if err := store.WriteChildRequest(ctx, top, `{"cpu":"3"}`); err != nil {
		t.Fatal(err)
	}
	const annotation = "quota.scheduling.koordinator.sh/child-request"
	if after, annotations := newest(t, f); after != before || len(annotations) != 2 || annotations[annotation] != `{"cpu":"3"}` {
		t.Errorf("%s: %v", after, annotations)
	}
	if now, err := store.Read(ctx, top); err != nil || now.ChildRequest != `{"cpu":"3"}` {
		t.Errorf("%+v %v", now, err)
	}
	if body := f.Single[0].Body; body != `{"metadata":{"annotations":{"`+annotation+`":"{\"cpu\":\"3\"}"}}}` {
		t.Error(body)
	}
	if err := store.WriteChildRequest(ctx, top, ""); err != nil {
		t.Fatal(err)
	}
	if _, annotations := newest(t, f); len(annotations) != 1 {
		t.Errorf("left: %v", annotations)
	}
}

// TestRecordOfUnreadable: a quota whose newest state does not decode counts as it last did, with its current record.
func TestRecordOfUnreadable(t *testing.T) {
	f := clustertest.New(t)
	f.Apply(elasticQuotas, top.String(), aQuota)
	_, c := watching(t, f, keeping("elasticquotas"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	f.Apply(elasticQuotas, top.String(), `{"metadata":{"annotations":{"usher.dev/reservations":"r"}},"spec":{"max":{"cpu":"1e-99999999"}}}`)
	now, err := recordsOf(c).Read(t.Context(), top)
	if err != nil || now.Record != "r" || now.Quota.Max.Cpu().Value() != 4 {
		t.Fatalf("%+v %v", now, err)
	}
	if next, err := recordsOf(c).Write(t.Context(), top, now.Version, "s"); err != nil || next.Record != "s" || next.Version == now.Version {
		t.Errorf("%+v %v", next, err)
	}
	f.Apply(elasticQuotas, "org/never", `{"spec":{"max":{"cpu":"1e-99999999"}}}`)
	if now, err := recordsOf(c).Read(t.Context(), types.NamespacedName{Namespace: "org", Name: "never"}); err == nil {
		t.Errorf("%+v", now)
	}
}

// TestPodVersion: only the metadata of a pod is requested.
func TestPodVersion(t *testing.T) {
	f, store := recording(t)
	f.Apply(podRequests, "ns/p", `{"spec":{"nodeName":"n"}}`) // 102
	if version, err := store.Pod(t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"}); err != nil || version != "102" {
		t.Errorf("%q %v", version, err)
	}
	if got := f.Single[0]; got.Method != "GET" || got.URI != "/api/v1/namespaces/ns/pods/p" || !strings.Contains(got.Accept, "as=PartialObjectMetadata") {
		t.Errorf("%+v", got)
	}
	if _, err := store.Pod(t.Context(), types.NamespacedName{Namespace: "ns", Name: "q"}); !errors.Is(err, ledger.ErrGone) {
		t.Error(err)
	}
	f.Set(func() { f.Refuse["pods"] = http.StatusForbidden })
	if _, err := store.Pod(t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"}); err == nil || errors.Is(err, ledger.ErrGone) {
		t.Error(err)
	}
}

// TestNoRecordsInFiles: files are not written.
func TestNoRecordsInFiles(t *testing.T) {
	_, c, err := inFiles(t, "", "elasticquotas")
	if err != nil {
		t.Fatal(err)
	}
	if err := recordsOf(c).WriteChildRequest(t.Context(), top, "{}"); err == nil || errors.Is(err, ledger.ErrGone) {
		t.Error(err)
	}
	if _, err := recordsOf(c).Read(t.Context(), top); err == nil || errors.Is(err, ledger.ErrGone) {
		t.Error(err)
	}
}
