package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
)

// Tests of the match conditions, evaluated as in an API server. TestSamplesAsStored and TestSamplesAsTyped check, with
// keptAway, that usher is called for every update that it refuses or changes. The tests here check that it is not
// called for fields that no check reads.

// TestBookkeepingIsNotAskedAbout: usher is not called for an update that changes only finalizers and similar fields,
// whatever the object, and no expression fails on it; usher is called for an update that changes a field which a check
// reads.
func TestBookkeepingIsNotAskedAbout(t *testing.T) {
	made, checked := servers{}, map[string]int{}
	for _, s := range samples {
		if s.request.Operation != "UPDATE" || !conditional(s.path) || s.golden.code != 200 {
			continue
		}
		for how, decode := range map[string]decoder{"stored": asStored, "typed": asTyped} {
			t.Run(s.name+"/"+how, func(t *testing.T) {
				if _, err := s.attributes(decode, s.request.OldObject.Raw); err != nil || len(s.request.OldObject.Raw) < 10 {
					t.Skip("no API server sends this: ", err)
				}
				server := made.of(t, s)
				for _, labels := range []any{keep, nil, map[string]any{}, map[string]any{"a": "b"}} {
					old := with(t, s.request.OldObject.Raw, map[string]any{"labels": labels})
					checkAsked(t, server, s, decode, old, old, false)
					checkAsked(t, server, s, decode, old, with(t, old, bookkeeping), false)
				}
				checked[s.path]++
			})
		}
	}
	if t.Logf("%v", checked); len(checked) < 6 {
		t.Errorf("only the routes %v were checked", checked)
	}
}

// TestChangesAreAskedAbout: usher is called when a label or annotation is added, removed or changed, whatever was there
// before.
func TestChangesAreAskedAbout(t *testing.T) {
	s, server := podUpdate(t)
	values := []any{nil, map[string]any{"a": "b"}, map[string]any{"a": "c"}, map[string]any{"a": "b", "c": ""}}
	for _, field := range []string{"labels", "annotations"} {
		for i, before := range values {
			for j, after := range values {
				t.Run(fmt.Sprint(field, i, j), func(t *testing.T) {
					old := with(t, s.request.OldObject.Raw, map[string]any{field: before})
					now := with(t, s.request.OldObject.Raw, map[string]any{field: after})
					checkAsked(t, server, s, asTyped, old, now, i != j)
				})
			}
		}
	}
}

// TestLargeObjectsAreCompared: the API server aborts an expression that costs too much, and refuses the request. A pod
// of the largest size that can be stored costs no more than any other.
func TestLargeObjectsAreCompared(t *testing.T) {
	s, server := podUpdate(t)
	pod := object(t, s.request.OldObject.Raw)
	annotations, containers := map[string]any{}, []any{}
	for i := range 20_000 {
		annotations[fmt.Sprint("k", i)] = "v"
	}
	for i := range 4_000 {
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": strings.Repeat("i", 200), "env": []any{map[string]any{"name": "A", "value": "b"}}})
	}
	pod["spec"].(map[string]any)["containers"] = containers
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	raw = with(t, raw, map[string]any{"annotations": annotations})
	checkAsked(t, server, s, asTyped, raw, with(t, raw, bookkeeping), false)
}

// podUpdate is an update of a pod, and an API server that calls /validate-pod.
func podUpdate(t *testing.T) (*sample, *apiServer) {
	t.Helper()
	for _, s := range samples {
		if s.name == "validate-pod/qos-priority-update-qos" {
			return s, servers{}.of(t, s)
		}
	}
	t.Fatal("the sample is gone")
	return nil, nil
}

// conditional reports whether the route's webhook has a condition on the changed fields.
func conditional(path string) bool {
	c := all.only(path, "v1")
	has := func(conditions []registration.MatchCondition) bool {
		for _, m := range conditions {
			if m.Name == "changed" {
				return true
			}
		}
		return false
	}
	return len(c.mutating.Webhooks) > 0 && has(c.mutating.Webhooks[0].MatchConditions) ||
		len(c.validating.Webhooks) > 0 && has(c.validating.Webhooks[0].MatchConditions)
}

// checkAsked sends an update and checks whether usher was called. If it was not, the update must pass; a failing
// expression would refuse it.
func checkAsked(t *testing.T, server *apiServer, s *sample, decode decoder, old, now []byte, want bool) {
	t.Helper()
	request := *s.request
	request.OldObject.Raw = old
	attributes, err := (&sample{path: s.path, request: &request}).attributes(decode, now)
	if err != nil {
		t.Fatal(err)
	}
	got := server.admit(attributes)
	if asked := len(got.calls.sent) > 0; asked != want || !want && got.err != nil {
		t.Errorf("asked %v, want %v; %v\nold: %.600s\nnew: %.600s", asked, want, got.err, old, now)
	}
}

// keep leaves a field of the metadata unchanged.
var keep = new(int)

// bookkeeping is the metadata that no check reads.
var bookkeeping = map[string]any{
	"finalizers": []any{"example.com/keep"}, "resourceVersion": "9", "generation": 7.0,
	"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}},
	"managedFields":   []any{map[string]any{"manager": "m", "operation": "Update"}},
}

// with returns an object with other metadata; nil removes a field.
func with(t *testing.T, raw []byte, fields map[string]any) []byte {
	t.Helper()
	o := object(t, raw)
	meta := maps.Clone(o["metadata"].(map[string]any))
	for name, value := range fields {
		if value == nil {
			delete(meta, name)
		} else if value != any(keep) {
			meta[name] = value
		}
	}
	o["metadata"] = meta
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func object(t *testing.T, raw []byte) (o map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return o
}
