package replay

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// TestMemory: what is remembered is bounded in number and in bytes, and the latest stays.
func TestMemory(t *testing.T) {
	for _, size := range []int{10, 100_000} {
		m := newMemory()
		var last explain.Event
		for i := range 2 * maxObjects {
			last.ObjectRef.Name = fmt.Sprint("c", i)
			object := json.RawMessage(fmt.Sprintf(`{"metadata": {"name": "c%d", "resourceVersion": "1"}, "data": "%*d"}`, i, size, i))
			last.ResponseObject = object
			if m.remember(&last); m.last.Len() > maxObjects || m.bytes > maxBytes || len(m.places) != m.last.Len() {
				t.Fatalf("%d objects, %d bytes", m.last.Len(), m.bytes)
			}
			if size > 10 && i > 3000 {
				break
			}
		}
		first := explain.Event{}
		first.ObjectRef.Name = "c0"
		if m.before(&last) == nil || m.before(&first) != nil {
			t.Errorf("size %d: the last is %s, the first %s", size, m.before(&last), m.before(&first))
		}
	}
}

// TestApplied: patches of all kinds, right and wrong, have the effect that the API server's own applier gives them.
func TestApplied(t *testing.T) {
	rng := seed.Random(t)
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	document := decoded([]byte(`{"a": {"b/c": "1", "d": {}}, "l": [{"a": 1.50}, "x", []], "n": null}`))
	before := string(encoded(document))
	for range 3000 {
		var patch []report.Operation
		for range 1 + rng.IntN(3) {
			path := pick("/a", "/l", "/n", "/z", "") + pick("", "", "/a", "/b~1c", "/d", "/-", "/0", "/1", "/2", "/3", "/4", "/-1", "/x") + pick("", "", "/a", "/-")
			patch = append(patch, report.Operation{Op: pick("add", "add", "replace", "remove", "test", "copy", "x"), Path: path, From: "/a",
				Value: json.RawMessage(pick("7", `{"q": [1]}`, `"s"`))})
		}
		is, err := applied(document, patch)
		want, wrong := requests.Patched(encoded(document), patch)
		if (err == nil) != (wrong == nil) || err == nil && !reflect.DeepEqual(is, decoded(want)) || string(encoded(document)) != before {
			t.Fatalf("%s: %v %v, want %v %v", encoded(patch), is, err, string(want), wrong)
		}
	}
}

// FuzzRebuild: whatever a log has for patches, they are undone or not.
func FuzzRebuild(f *testing.F) {
	f.Add([]byte(`{"kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "a"}]}}`),
		[]byte(`{"kind": "Pod", "metadata": {"uid": "1"}, "spec": {"containers": [{"name": "b", "image": "c"}, {"name": "a"}]}}`),
		[]byte(`[{"op": "add", "path": "/spec/containers/0", "value": {"name": "b", "image": "c"}}]`))
	f.Add([]byte(`{}`), []byte(`null`), []byte(`[{"op": "remove", "path": "/a/-/b"}, {"op": "copy", "from": "/a", "path": "/b"}]`))
	f.Fuzz(func(_ *testing.T, sent, stored, patch []byte) {
		var operations []report.Operation
		if decoded(sent) == nil || json.Unmarshal(patch, &operations) != nil {
			return
		}
		kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
		documents, why := rebuild(kind, true, decoded(sent), decoded(stored), []explain.Called{{Mutates: true, Patch: operations}})
		if why == "" && len(documents) != 2 {
			panic("a document is missing")
		}
	})
}
