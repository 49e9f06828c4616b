package slo

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.dev/usher/admit/document"
)

// typed returns a value of the Go type that Koordinator decodes a rule's value into, with encoding/json.
func typed(r rule) reflect.Type {
	switch r := r.(type) {
	case boolean:
		return reflect.TypeFor[*bool]()
	case text, choice:
		return reflect.TypeFor[string]()
	case duration:
		return reflect.TypeFor[metav1.Duration]()
	case bandwidth:
		return reflect.TypeFor[resource.Quantity]()
	case share:
		return reflect.TypeFor[*intstr.IntOrString]()
	case ratios:
		return reflect.TypeFor[map[string]float64]()
	case free:
		return reflect.TypeFor[any]()
	case list:
		return reflect.SliceOf(typed(r.rule))
	case dict:
		return reflect.MapOf(reflect.TypeFor[string](), typed(r.rule))
	case whole:
		return reflect.TypeFor[*int64]()
	case number:
		return reflect.TypeFor[*float64]()
	case fields:
		var members []reflect.StructField
		for i, name := range slices.Sorted(maps.Keys(r)) {
			members = append(members, reflect.StructField{
				Name: fmt.Sprint("F", i), Type: typed(r[name]), Tag: reflect.StructTag(fmt.Sprintf("json:%q", name)),
			})
		}
		return reflect.PointerTo(reflect.StructOf(members))
	}
	panic(fmt.Sprintf("%T", r))
}

// FuzzCompile: any text gets an answer; one without problems can be decoded by Koordinator, and means the same in
// another layout of its JSON.
func FuzzCompile(f *testing.F) {
	var types []reflect.Type
	for i := range tables {
		types = append(types, typed(tables[i].all))
	}
	for i, seed := range []string{
		`{"enable":true,"degradeTimeMinutes":5,"nodeConfigs":[{"name":"x","nodeSelector":{"matchLabels":{"a":"b"}},"resourceDiffThreshold":0.5}]}`,
		`{"clusterStrategy":{"memoryEvictLowerPercent":60},"nodeStrategies":[{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}},null]}`,
		`{"clusterStrategy":{"lsClass":{"networkQOS":{"ingressRequest":"50M","egressRequest":50},"resctrlQOS":{"catRangeStartPercent":1}},"beClass":null}}`,
		`{"clusterStrategy":{"totalNetworkBandwidth":1e3,"schedFeatures":{"ID":null}}}`,
		`{"clusterStrategy":{"policy":"auto","Policy":null}}`,
		`{"applications":[{"cgroupPath":{}},null]}`,
		`{"ratioModel":{"x":{"baseRatio":1.5}}}`,
		`null`,
		"\xff", `{"metricAggregatePolicy":{"durations":["5m",null]}}`, `{"nodeConfigs":[{"NodeSelector":{"matchlabels":{"a":null}}}]}`,
	} {
		f.Add(uint8(i), seed)
	}
	f.Add(uint8(0), `{"":[{"":{},"":0}]}`)
	f.Fuzz(func(t *testing.T, n uint8, text string) {
		i := int(n) % len(tables)
		key := tables[i].key
		c := Compile(map[string]string{key: text})
		problems := c.Problems(nil)
		c.Conflicts(map[string]string{"a": "b"})
		c.Amplification(nil)
		for _, p := range problems {
			if p.Key != key || !strings.HasPrefix(p.Err.Field, "data["+key+"]") {
				t.Errorf("%q: %v", text, p)
			}
		}
		if len(problems) > 0 || text == "" {
			return
		}
		into := reflect.New(types[i])
		if err := json.Unmarshal([]byte(text), into.Interface()); err != nil {
			t.Fatalf("%s %s has no problem, but does not decode: %v", key, text, err)
		}
		if document.CheckText(text) != nil {
			return // such as a key that is set twice where nothing reads it: document.SameText compares bytes
		}
		indented, err := json.MarshalIndent(json.RawMessage(text), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if Changed(map[string]string{key: text}, map[string]string{key: string(indented)})(key) {
			t.Errorf("%s: laid out another way it is another one: %s", text, indented)
		}
	})
}
