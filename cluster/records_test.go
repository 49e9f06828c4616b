package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/quota/ledger"
)

const aQuota = `{"metadata":{"labels":{"quota.scheduling.koordinator.sh/is-parent":"true"},"annotations":{"a":"b"}},"spec":{"max":{"cpu":"4"}},"status":{"used":{"cpu":"1"}}}`

var top = types.NamespacedName{Namespace: "org", Name: "top"}

// recording gives a fake API server that has the quota top, and the records of a cluster that it stands for. Nobody watches it.
func recording(t *testing.T) (*fakeAPI, *Cluster, ledger.Store) {
	t.Helper()
	f := newFakeAPI(t)
	f.apply(ElasticQuotas, top.String(), aQuota)
	c := f.follow(t, Options{})
	return f, c, c.Records()
}

// newest is top as the server has it, without what a write must change.
func (f *fakeAPI) newest(t *testing.T) (text string, annotations map[string]string) {
	t.Helper()
	var o map[string]any
	f.set(func() {
		if err := json.Unmarshal(f.stored["elasticquotas"][top.String()], &o); err != nil {
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
	f, _, store := recording(t)
	before, _ := f.newest(t)
	first, err := store.Read(ctx, top)
	if err != nil || first.Record != "" || first.Version == "" || !first.Quota.IsParent || first.Quota.Name != "top" || first.Quota.Max.Cpu().Value() != 4 {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := store.Write(ctx, top, first.Version, `{"pods":["<&>"]}`)
	if err != nil || second.Record != `{"pods":["<&>"]}` || second.Version == first.Version || second.Quota.Max.Cpu().Value() != 4 {
		t.Fatalf("%+v %v", second, err)
	}
	after, annotations := f.newest(t)
	if after != before || len(annotations) != 2 || annotations["a"] != "b" || annotations[ledger.Annotation] != second.Record {
		t.Errorf("%s: %v\nbefore: %s", after, annotations, before)
	}
	if again, err := store.Read(ctx, top); err != nil || again.Version != second.Version || again.Record != second.Record {
		t.Errorf("%+v %v", again, err)
	}
	third, err := store.Write(ctx, top, second.Version, "")
	if _, annotations = f.newest(t); err != nil || third.Record != "" || len(annotations) != 1 {
		t.Errorf("%+v %v, left: %v", third, err, annotations)
	}
	const path = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/org/elasticquotas/top"
	const merge = "application/merge-patch+json"
	want := []fakeRequest{
		{"GET", path, "", ""},
		{"PATCH", path + "?fieldManager=usher", merge, `{"metadata":{"resourceVersion":"` + first.Version + `","annotations":{"usher.dev/reservations":"{\"pods\":[\"\u003c\u0026\u003e\"]}"}}}`},
		{"GET", path, "", ""},
		{"PATCH", path + "?fieldManager=usher", merge, `{"metadata":{"resourceVersion":"` + second.Version + `","annotations":{"usher.dev/reservations":null}}}`},
	}
	for i, got := range f.single {
		if got != want[i] {
			t.Errorf("request %d:\n%v, want\n%v", i, got, want[i])
		}
	}
}

// TestRecordsFail: who is told an error knows whether to begin again, to give up, or that anything may have happened.
func TestRecordsFail(t *testing.T) {
	ctx := t.Context()
	f, c, store := recording(t)
	now, err := store.Read(ctx, top)
	if err != nil {
		t.Fatal(err)
	}
	f.apply(ElasticQuotas, top.String(), aQuota) // somebody writes in between
	for _, version := range []string{now.Version, ""} {
		if _, err := store.Write(ctx, top, version, "r"); !errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrGone) || !strings.Contains(err.Error(), "quota org/top: ") {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if _, annotations := f.newest(t); annotations[ledger.Annotation] != "" {
		t.Error("the conflicting record was written")
	}
	absent := types.NamespacedName{Namespace: "org", Name: "absent"}
	_, read := store.Read(ctx, absent)
	_, write := store.Write(ctx, absent, now.Version, "r")
	for _, err := range []error{read, write, c.WriteChildRequest(ctx, absent, "{}")} {
		if !errors.Is(err, ledger.ErrGone) || errors.Is(err, ledger.ErrConflict) {
			t.Error(err)
		}
	}
	f.set(func() { f.refuse["elasticquotas"] = http.StatusForbidden })
	_, read = store.Read(ctx, top)
	_, write = store.Write(ctx, top, now.Version, "r")
	for _, err := range []error{read, write} {
		if err == nil || errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrGone) || !strings.Contains(err.Error(), "quota org/top: ") {
			t.Error(err)
		}
	}
}

// TestRecordsInTime: nobody waits longer than he said.
func TestRecordsInTime(t *testing.T) {
	f, c, store := recording(t)
	f.set(func() { f.hang = true })
	for name, do := range map[string]func(context.Context) error{
		"read":  func(ctx context.Context) error { _, err := store.Read(ctx, top); return err },
		"write": func(ctx context.Context) error { _, err := store.Write(ctx, top, "1", "r"); return err },
		"child": func(ctx context.Context) error { return c.WriteChildRequest(ctx, top, "{}") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		from := time.Now()
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(from) > 10*time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(from))
		}
		cancel()
	}
}

func TestWriteChildRequest(t *testing.T) {
	ctx := t.Context()
	f, c, store := recording(t)
	before, _ := f.newest(t)
	if err := c.WriteChildRequest(ctx, top, `{"cpu":"3"}`); err != nil {
		t.Fatal(err)
	}
	const annotation = "quota.scheduling.koordinator.sh/child-request"
	if after, annotations := f.newest(t); after != before || len(annotations) != 2 || annotations[annotation] != `{"cpu":"3"}` {
		t.Errorf("%s: %v", after, annotations)
	}
	if now, err := store.Read(ctx, top); err != nil || now.ChildRequest != `{"cpu":"3"}` {
		t.Errorf("%+v %v", now, err)
	}
	if body := f.single[0].body; body != `{"metadata":{"annotations":{"`+annotation+`":"{\"cpu\":\"3\"}"}}}` {
		t.Error(body)
	}
	if err := c.WriteChildRequest(ctx, top, ""); err != nil {
		t.Fatal(err)
	}
	if _, annotations := f.newest(t); len(annotations) != 1 {
		t.Errorf("left: %v", annotations)
	}
}

// TestRecordOfUnreadable: a quota whose newest state does not decode counts as it last did, and its record lives on.
func TestRecordOfUnreadable(t *testing.T) {
	f := newFakeAPI(t)
	f.apply(ElasticQuotas, top.String(), aQuota)
	c := f.follow(t, Options{Kinds: []Kind{ElasticQuotas}})
	eventually(t, "ready", func() bool { return c.Ready() == nil })
	f.apply(ElasticQuotas, top.String(), `{"metadata":{"annotations":{"usher.dev/reservations":"r"}},"spec":{"max":{"cpu":"1e-99999999"}}}`)
	now, err := c.Records().Read(t.Context(), top)
	if err != nil || now.Record != "r" || now.Quota.Max.Cpu().Value() != 4 {
		t.Fatalf("%+v %v", now, err)
	}
	if next, err := c.Records().Write(t.Context(), top, now.Version, "s"); err != nil || next.Record != "s" || next.Version == now.Version {
		t.Errorf("%+v %v", next, err)
	}
	f.apply(ElasticQuotas, "org/never", `{"spec":{"max":{"cpu":"1e-99999999"}}}`)
	if now, err := c.Records().Read(t.Context(), types.NamespacedName{Namespace: "org", Name: "never"}); err == nil {
		t.Errorf("%+v", now)
	}
}

// TestNoRecordsInFiles: files are not written.
func TestNoRecordsInFiles(t *testing.T) {
	c, err := Files("", Options{Kinds: []Kind{ElasticQuotas}})
	if err != nil {
		t.Fatal(err)
	}
	if store := c.Records(); store != nil {
		t.Errorf("%v", store)
	}
	if err := c.WriteChildRequest(t.Context(), top, "{}"); err == nil || errors.Is(err, ledger.ErrGone) {
		t.Error(err)
	}
}
