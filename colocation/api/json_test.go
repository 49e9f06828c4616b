package api

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestParseJSONText(t *testing.T) {
	for text, want := range map[string]ResourceSpec{
		`{}`:   {},
		`null`: {},
		`{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"Default","preferredCPUExclusivePolicy":"PCPULevel"}`: {
			CPUBindFullPCPUs, CPUBindDefault, CPUExclusivePCPULevel},
		`{"requiredCpuBindPolicy":"FullPCPUs","later":{"a":[1]}}`: {}, // another name, and an unknown one
	} {
		if got, err := ParseJSONText[ResourceSpec](text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestParseJSONTextRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"{\"name\":\"\xff\"}":          `UTF-8`,
		``:                             `it ends too early`,
		` `:                            `it ends too early`,
		`{`:                            `it ends too early`,
		`{} x`:                         `something follows`,
		`{'a':1}`:                      `a key is missing`,
		`[]`:                           `JSON type array does not belong here`,
		`{"name":5}`:                   `JSON type number does not belong at name`,
		`{"name":"a","tolerations":5}`: `JSON type number does not belong at tolerations`,
		`{"name":"a","name":"a"}`:      `duplicate key "name"`,
		`{"name":"a","n\u0061me":"b"}`: `duplicate key "name"`,
		`{"reservationSelector":{"a":"1","a":"2"}}`: `duplicate key "a"`,
		`{"later":{"a":1,"a":2}}`:                   `duplicate key "a"`,
		`{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{},{"matchFields":[],"matchFields":[]}]}}`: `duplicate key "matchFields"`,
	} {
		got, err := ParseJSONText[ReservationAffinity](text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") || !cmp.Equal(got, ReservationAffinity{}) {
			t.Errorf("%s: %+v, %v, want %s", text, got, err, want)
		}
	}
}

func TestAnnotations(t *testing.T) {
	affinity, err := ParseJSONText[ReservationAffinity](`{"name":"r","reservationSelector":{"a":"b"},"requiredDuringSchedulingIgnoredDuringExecution":` +
		`{"reservationSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}]},"tolerations":[{"key":"t"}]}`)
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: corev1.NodeSelectorOpIn, Values: []string{"v"}}}}
	wantAffinity := ReservationAffinity{"r", map[string]string{"a": "b"}, &ReservationAffinitySelector{[]corev1.NodeSelectorTerm{term}}, []corev1.Toleration{{Key: "t"}}}
	if diff := cmp.Diff(wantAffinity, affinity); diff != "" || err != nil {
		t.Error(diff, err)
	}
	numa, err := ParseJSONText[NUMATopologySpec](`{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}`)
	if numa != (NUMATopologySpec{NUMATopologySingleNUMANode, NUMAExclusiveRequired}) || err != nil {
		t.Error(numa, err)
	}
	namespaces, err := ParseJSONText[[]string](`["a","b"]`)
	if !cmp.Equal(namespaces, []string{"a", "b"}) || err != nil {
		t.Error(namespaces, err)
	}
}

// TestExtendedResourceSpec: the encoding of the reference: compact, names sorted, limits first, no empty maps.
func TestExtendedResourceSpec(t *testing.T) {
	both := ResourceList{ResourceBatchMemory: resource.MustParse("1Gi"), ResourceBatchCPU: milliCores(resource.MustParse("1500m"))}
	spec := ExtendedResourceSpec{map[string]ExtendedResourceContainer{"c": {Limits: both, Requests: both}, "b": {Requests: ResourceList{ResourceBatchCPU: milliCores(resource.MustParse("1"))}}}}
	const want = `{"containers":{"b":{"requests":{"kubernetes.io/batch-cpu":"1k"}},` +
		`"c":{"limits":{"kubernetes.io/batch-cpu":"1500","kubernetes.io/batch-memory":"1Gi"},"requests":{"kubernetes.io/batch-cpu":"1500","kubernetes.io/batch-memory":"1Gi"}}}}`
	text, err := json.Marshal(spec)
	if string(text) != want || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	back, err := ParseJSONText[ExtendedResourceSpec](want)
	if diff := cmp.Diff(spec, back); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if text, _ := json.Marshal(ExtendedResourceSpec{}); string(text) != "{}" {
		t.Errorf("%s", text)
	}
	odd := ResourceList{"<a>": resource.MustParse("0"), "\xff": resource.MustParse("-1.5"), "": resource.MustParse("100e3")}
	for _, spec := range []ExtendedResourceSpec{spec, {}, {map[string]ExtendedResourceContainer{}},
		{map[string]ExtendedResourceContainer{"": {}, "\"é\u2028": {Limits: odd, Requests: ResourceList{}}, "z": {Requests: odd}}}} {
		want, err := json.Marshal(spec)
		if got := spec.Text(); got != string(want) || err != nil {
			t.Errorf("%s, want %s, %v", got, want, err)
		}
	}
}

func TestResourceList(t *testing.T) {
	for text, want := range map[string]corev1.ResourceList{
		`{"cpu":"500m","memory":1024,"x":1.5,"y":" 2 ","z":null,"e":"1e3"}`: list("cpu", "500m", "memory", "1024", "x", "1.5", "y", "2", "z", "0", "e", "1e3"),
		`{"cpu":"\u0031"}`: list("cpu", "1"),
		`{}`:               {},
		`null`:             nil,
	} {
		got, err := ParseJSONText[ResourceList](text)
		if diff := cmp.Diff(want, corev1.ResourceList(got)); diff != "" || err != nil {
			t.Errorf("%s: %s, %v", text, diff, err)
		}
	}
	for text, want := range map[string]string{
		`{"b":"1","a":"x","c":"y"}`: `a: not a quantity`,
		`{"a":{}}`:                  `a: not a quantity`,
		`{"a":true}`:                `a: not a quantity`,
		`{"a":""}`:                  `a: not a quantity`,
		`{"a":"1","a":"1"}`:         `duplicate key "a"`,
		`{"a":1e-5000000}`:          `a: not a quantity`,
		`[]`:                        `array`,
		`"cpu"`:                     `string`,
	} {
		if got, err := ParseJSONText[ResourceList](text); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
}

// TestStoredQuantityOfDoom: resource.Quantity spends a minute and gigabytes on this one, which can be stored in a
// custom resource.
func TestStoredQuantityOfDoom(t *testing.T) {
	const doom = `{"cpu":"1e-5000000"}`
	for _, into := range []any{new(ElasticQuota), new(Reservation), new(ExtendedResourceSpec)} {
		err := json.Unmarshal([]byte(`{"spec":{"max":`+doom+`},"status":{"allocatable":`+doom+`},"containers":{"c":{"limits":`+doom+`}}}`), into)
		if err == nil {
			t.Errorf("%T: taken", into)
		}
	}
}

func TestProfileJSON(t *testing.T) {
	text, err := json.Marshal(ClusterColocationProfileSpec{})
	if string(text) != `{}` || err != nil {
		t.Errorf("an empty spec is %s, %v (the CRD refuses an empty qosClass)", text, err)
	}
	spec, err := ParseJSONText[ClusterColocationProfileSpec](`{"probability":"30%","patch":{"spec":{"later":1}},"koordinatorPriority":0}`)
	if err != nil || *spec.Probability != intstr.FromString("30%") || string(spec.Patch) != `{"spec":{"later":1}}` || !spec.HasPatch() || *spec.KoordinatorPriority != 0 {
		t.Errorf("%+v, %v", spec, err)
	}
	if spec, err := ParseJSONText[ClusterColocationProfileSpec](`{"patch":null}`); err != nil || spec.HasPatch() || new(ClusterColocationProfileSpec).HasPatch() {
		t.Errorf("%+v, %v", spec, err)
	}
}

// FuzzParseJSONText: accepted text is JSON, and survives a round trip.
func FuzzParseJSONText(f *testing.F) {
	for _, seed := range []string{
		`{"containers":{"c":{"limits":{"kubernetes.io/batch-cpu":"1k"},"requests":{"kubernetes.io/batch-memory":"1Gi"}}}}`,
		`{"containers":{"c":null}}`, `{"containers":{"c":{"limits":{"a":1e99,"b":-0.5,"c":null}}}}`, `{"containers":{"a":{},"a":{}}}`, ``, `{}`, `null`, `[[[[`, "{\"\xff\":1}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseJSONText[ExtendedResourceSpec](text)
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("accepted %q", text)
		}
		written, err := json.Marshal(spec)
		if string(written) != spec.Text() {
			t.Fatalf("%q is written as %q, want %q", text, spec.Text(), written)
		}
		again, readErr := ParseJSONText[ExtendedResourceSpec](string(written))
		if err := errors.Join(err, readErr); err != nil {
			t.Fatalf("%q was written as %q: %v", text, written, err)
		}
		if rewritten, _ := json.Marshal(again); string(rewritten) != string(written) {
			t.Fatalf("%q was written as %q, then as %q", text, written, rewritten)
		}
	})
}

// FuzzAnnotations: no text makes the decoder of an annotation panic, and refused text returns no partial value.
func FuzzAnnotations(f *testing.F) {
	for _, seed := range []string{
		`{"requiredCPUBindPolicy":"FullPCPUs"}`, `{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}`,
		`{"name":"r","reservationSelector":{"a":"b"},"tolerations":[{}]}`, `["a","b"]`, `{"cpu":"2","memory":"1Gi"}`, `{"name":"a","name":"b"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		decodesWhole[ResourceSpec](t, text)
		decodesWhole[NUMATopologySpec](t, text)
		decodesWhole[ReservationAffinity](t, text)
		decodesWhole[[]string](t, text)
		decodesWhole[ResourceList](t, text)
	})
}

func decodesWhole[T any](t *testing.T, text string) {
	if value, err := ParseJSONText[T](text); err != nil && !cmp.Equal(value, *new(T)) {
		t.Fatalf("%q gives %v and %v", text, value, err)
	}
}
