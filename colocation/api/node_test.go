package api

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit/quantity"
)

func TestParseRatioNumber(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "1.5": "1.5", "1.50": "1.5", "2.00": "2", "15e-1": "1.5", "0.15E+1": "1.5", "1e1": "10", "9999.999999": "9999.999999",
		"1.333333333333": "1.333333", "1.0000009": "1", "10": "10", "100.010": "100.01",
	} {
		got, err := quantity.ParseRatioNumber(text)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s %v, want %s", text, got, err, want)
		}
		again, err := quantity.ParseRatio(got.String())
		if err != nil || again.Millionths() != got.Millionths() {
			t.Errorf("%s: its text %s reads as %s %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "0", "0.9999999", "-1", "-0", "10000", "9999.9999999e1", "1e99", "1e999", "1e-5000000", `"1.5"`, "null", "{}", "NaN", "1/2",
		"11111111111111111111111111111111111111111"} {
		if got, err := quantity.ParseRatioNumber(text); err == nil {
			t.Errorf("%s reads as %s", text, got)
		}
	}
}

func TestParseNodeRatios(t *testing.T) {
	for text, want := range map[string]string{
		``: `map[] map[] []`, `{}`: `map[] map[] []`, `{"cpu":1.50}`: `map[cpu:1.5] map[] []`,
		`{"memory":2,"cpu":"2","b":1,"a":null}`: `map[memory:2] map[cpu:"2" is not a JSON number such as 1.5] [a b]`,
		`{"cpu":null}`:                          `map[] map[cpu:null is not a JSON number such as 1.5] []`,
		`{"cpu":{"a":[1]}}`:                     `map[] map[cpu:{"a":[1]} is not a JSON number such as 1.5] []`,
	} {
		got, err := ParseNodeRatios(text)
		if shown := fmt.Sprint(got.Of, got.Wrong, got.Foreign); err != nil || shown != want {
			t.Errorf("%s: %s %v, want %s", text, shown, err, want)
		}
	}
	for _, text := range []string{"null", "[]", "1", `"x"`, "{", `{"cpu":1,"cpu":1}`, "{}{}", " "} {
		if got, err := ParseNodeRatios(text); err == nil {
			t.Errorf("%s reads as %v", text, got)
		}
	}
}

func TestWithinUse(t *testing.T) {
	for _, c := range []struct {
		ratio          string
		percent        int
		capacity, used string
		want           string
	}{
		{"2", 65, "16", "13", "1.6"}, {"2", 65, "16", "10400m", "2"}, {"2", 65, "16", "10401m", "1.99"}, {"2", 65, "16", "1", "2"},
		{"1.333", 50, "16", "8", "1.333"}, {"1.333", 50, "16", "8001m", "1.33"}, {"2", 50, "16", "16", "1"}, {"2", 50, "16", "1k", "1"},
		{"2", 50, "16", "0", "2"}, {"2", 50, "0", "4", "2"}, {"9999", 100, "9E", "1n", "9999"}, {"9999", 1, "1n", "9E", "1"}, {"1", 50, "16", "16", "1"},
	} {
		ratio, _ := quantity.ParseRatio(c.ratio)
		got := ratio.WithinUse(c.percent, resource.MustParse(c.capacity), resource.MustParse(c.used), corev1.ResourceCPU)
		if got.String() != c.want {
			t.Errorf("%s within %d %% of %s, used %s: %s, want %s", c.ratio, c.percent, c.capacity, c.used, got, c.want)
		}
	}
}

func TestNear(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		percent int
		want    bool
	}{
		{"2", "2.0", 0, true}, {"2", "2.000001", 0, false}, {"1.9", "2", 5, true}, {"1.899999", "2", 5, false}, {"2.1", "2", 5, true}, {"2.100001", "2", 5, false},
	} {
		a, _ := quantity.ParseRatio(c.a)
		b, _ := quantity.ParseRatio(c.b)
		if a.Near(b, c.percent) != c.want {
			t.Errorf("%s near %s by %d %%: %v", c.a, c.b, c.percent, !c.want)
		}
	}
}

func TestNodeMetricP95(t *testing.T) {
	var m NodeMetric
	err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(`{"metadata":{"name":"n1"},"status":{"updateTime":"2026-11-20T09:00:00Z","nodeMetric":{
		"nodeUsage":{"resources":{"cpu":"1"}},"aggregatedNodeUsages":[
		{"duration":"5m0s","usage":{"p95":{"resources":{"cpu":"1","memory":"1Gi"}}}},
		{"duration":"30m0s","usage":{"p95":{"resources":{"cpu":"3"}},"avg":{"resources":{"cpu":"9","memory":"9Gi"}}}},
		{"duration":"24h0m0s","usage":{"avg":{"resources":{"cpu":"7"}}}},
		{"duration":"10m0s","usage":{"p95":{"resources":{"cpu":"2"}}}}]},"podsMetric":[{"name":"p"}]}}`), &m)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[corev1.ResourceName]string{"cpu": "3 30m0s true", "memory": "1Gi 5m0s true", "gpu": "0 0s false"} {
		used, window, known := m.P95(name)
		if got := fmt.Sprint(used.String(), " ", window, " ", known); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
