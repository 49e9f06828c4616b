package validators

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/slo"
	"usher.dev/usher/colocation/views"
)

var sloMap = types.NamespacedName{Namespace: "koordinator-system", Name: "slo-controller-config"}

// nodesNamed returns an AllNodes with one node that has two labels.
func nodesNamed(names ...string) AllNodes {
	nodes := map[string]map[string]string{}
	for _, name := range names {
		nodes[name] = map[string]string{"x": "1", "y": "1"}
	}
	return func() (iter.Seq2[string, map[string]string], error) { return maps.All(nodes), nil }
}

// configMap returns a ConfigMap with the given data, as a document.
func configMap(t testing.TB, name types.NamespacedName, data map[string]string, deleting bool) *document.Document {
	t.Helper()
	metadata := map[string]any{"name": name.Name, "namespace": name.Namespace}
	if deleting {
		metadata["deletionTimestamp"] = "2026-10-02T07:31:09Z"
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// runSLO runs the step on a ConfigMap, replacing an old one unless that is nil.
func runSLO(t testing.TB, options SLOOptions, nodes AllNodes, data, old map[string]string) (problems, warnings []string, _ error) {
	t.Helper()
	req := &admit.Request{Namespace: sloMap.Namespace, Object: configMap(t, sloMap, data, false)}
	if old != nil {
		req.OldObject = configMap(t, sloMap, old, false)
	}
	options.ConfigMap = sloMap
	list, err := sloConfig(options, nodes).Run(t.Context(), req, views.AsConfigMap(req.Object))
	for _, p := range list {
		problems = append(problems, p.Error())
	}
	return problems, req.Warnings(), err
}

const (
	selectX  = `{"name":"x","nodeSelector":{"matchLabels":{"x":"1"}}}`
	selectY  = `{"name":"y","nodeSelector":{"matchLabels":{"y":"1"}}}`
	selectXY = `{"name":"xy","nodeSelector":{"matchLabels":{"x":"1","y":"1"}}}`
)

func nodeConfigs(entries ...string) string {
	return `{"nodeConfigs":[` + strings.Join(entries, ",") + `]}`
}

// TestSLOConfig: which changes are checked. The rules themselves are tested in package slo.
func TestSLOConfig(t *testing.T) {
	const qos = `{"clusterStrategy":{"lsClass":{"networkQOS":{"egressRequest":"900M"}}}}`
	system := func(total string) string { return `{"clusterStrategy":{"totalNetworkBandwidth":"` + total + `"}}` }
	type data = map[string]string
	bounds := &sections.NodeAmplification{Pools: []sections.AmplificationPool{
		{Name: "x", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"x": "1"}}, MaxRatios: map[corev1.ResourceName]string{"cpu": "2"}},
		{Name: "default", MaxRatios: map[corev1.ResourceName]string{"cpu": "4"}}}}
	for name, c := range map[string]struct {
		data, old data
		names     bool
		want      []string // parts of the problems
		warnings  []string
	}{
		"none":                {data{}, nil, false, nil, nil},
		"created bad":         {data{slo.ColocationKey: "bad", slo.SystemKey: "bad"}, nil, false, []string{"data[colocation-config]: Invalid", "data[system-config]: Invalid"}, nil},
		"stays bad":           {data{slo.ColocationKey: "bad"}, data{slo.ColocationKey: "bad"}, false, nil, nil},
		"removed":             {nil, data{slo.ColocationKey: "bad"}, false, nil, nil},
		"becomes bad":         {data{slo.ColocationKey: "bad", slo.SystemKey: "bad"}, data{slo.ColocationKey: "{}", slo.SystemKey: "bad"}, false, []string{"data[colocation-config]: Invalid"}, nil},
		"overlap":             {data{slo.ColocationKey: nodeConfigs(selectX, selectXY)}, nil, false, []string{"overlaps with nodeConfigs[0] (x)", "all select the nodes n1, n2"}, nil},
		"node conflict":       {data{slo.ColocationKey: nodeConfigs(selectX, selectY)}, nil, false, []string{"nodeConfigs[0] (x), nodeConfigs[1] (y) all select the nodes n1, n2, and"}, nil},
		"conflict unchanged":  {data{slo.ColocationKey: nodeConfigs(selectX, selectY), slo.SystemKey: "{}"}, data{slo.ColocationKey: nodeConfigs(selectX, selectY)}, false, nil, nil},
		"total lowered":       {data{slo.QoSKey: qos, slo.SystemKey: system("800M")}, data{slo.QoSKey: qos, slo.SystemKey: system("1G")}, false, []string{"which is 800M"}, nil},
		"total still too low": {data{slo.QoSKey: qos, slo.SystemKey: strings.Replace(system("800M"), "{", `{"x":1,`, 1)}, data{slo.QoSKey: qos, slo.SystemKey: system("800M")}, false, nil, []string{"data[system-config].x: unknown"}},
		"total even lower":    {data{slo.QoSKey: qos, slo.SystemKey: system("700M")}, data{slo.QoSKey: qos, slo.SystemKey: system("800M")}, false, []string{"which is 700M"}, nil},
		"total unknown":       {data{slo.QoSKey: qos}, data{slo.QoSKey: qos, slo.SystemKey: system("800M")}, false, nil, nil},
		"names not asked":     {data{slo.ColocationKey: `{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"z":"1"}}}]}`}, nil, false, nil, nil},
		"names":               {data{slo.ColocationKey: `{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"z":"1"}}}]}`}, nil, true, []string{"nodeConfigs[0].name: Required"}, nil},
		"old warning":         {data{slo.ColocationKey: `{"x":1}`, slo.SystemKey: `{"y":1}`}, data{slo.ColocationKey: `{"x":1}`}, false, nil, []string{"data[system-config].y: unknown"}},
		"ratio above bounds": {data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":5,"memory":9}}`}, nil, false, []string{
			"data[resource-amplification-config]: Invalid value: node n1 gets cpu 5; it must be from 1 to 2, the bound of pool x"},
			[]string{"resource-amplification-config: a node without labels gets cpu 5; it must be from 1 to 4, the bound of pool default"}},
		"ratio above the bound of nodes to come": {data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":5},"nodeConfigs":[{"name":"x","nodeSelector":{"matchLabels":{"x":"1"}},"resourceAmplificationRatio":{"cpu":2}}]}`}, nil, false, nil,
			[]string{"a node without labels gets cpu 5; it must be from 1 to 4, the bound of pool default"}},
		"ratio of an entry without nodes": {data{slo.AmplificationKey: `{"nodeConfigs":[{"name":"new","nodeSelector":{"matchLabels":{"pool":"new"}},"enable":true,"resourceAmplificationRatio":{"cpu":9,"memory":9}}]}`}, nil, false, nil,
			[]string{"resource-amplification-config: a node of nodeConfigs[0] (new) gets cpu 9; no pool allows more than 4, and /validate-node refuses it"}},
		"ratio of an entry without nodes that a pool allows": {data{slo.AmplificationKey: `{"nodeConfigs":[{"name":"new","nodeSelector":{"matchLabels":{"pool":"new"}},"enable":true,"resourceAmplificationRatio":{"cpu":4}}]}`}, nil, false, nil, nil},
		"ratio of an entry that is not enabled":              {data{slo.AmplificationKey: `{"nodeConfigs":[{"name":"new","nodeSelector":{"matchLabels":{"pool":"new"}},"resourceAmplificationRatio":{"cpu":9}}]}`}, nil, false, nil, nil},
		"ratio above a bound":                                {data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":3}}`}, nil, false, []string{"data[resource-amplification-config]: Invalid value: node n1 gets cpu 3"}, nil},
		"ratio of an entry":                                  {data{slo.AmplificationKey: `{"nodeConfigs":[{"name":"x","nodeSelector":{"matchLabels":{"x":"1"}},"enable":true,"resourceAmplificationRatio":{"cpu":3}}]}`}, nil, false, []string{"node n1 gets cpu 3"}, nil},
		"ratio not enabled":                                  {data{slo.AmplificationKey: `{"resourceAmplificationRatio":{"cpu":5}}`}, nil, false, nil, nil},
		"ratio unchanged":                                    {data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":5}}`, slo.SystemKey: "{}"}, data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":5}}`}, false, nil, nil},
		"ratio unchanged beside normalization": {data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":5}}`, slo.NormalizationKey: `{"enable":false}`},
			data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":5}}`}, false, nil, nil},
		"normalized ratio": {data{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":1.5}}`, slo.NormalizationKey: `{"enable":true,"defaultRatio":1,"ratioModel":{"m":{"baseRatio":1.5}}}`}, nil, false, nil,
			[]string{"cpu-normalization-config: node n1 gets cpu 2.25; it must be from 1 to 2, the bound of pool x"}},
		"normalized only":       {data{slo.NormalizationKey: `{"enable":true,"defaultRatio":3}`}, nil, false, nil, []string{"node n1 gets cpu 3; "}},
		"normalization off":     {data{slo.NormalizationKey: `{"defaultRatio":3}`}, nil, false, nil, nil},
		"misspelt key":          {data{"system-confg": "{}"}, nil, false, nil, []string{"data[system-confg]: unknown; is it system-config?"}},
		"misspelt key, not new": {data{"system-confg": "{}"}, data{"system-confg": "{}"}, false, nil, nil},
	} {
		problems, warnings, err := runSLO(t, SLOOptions{NamesRequired: c.names, Ratios: bounds.Sources(nil)}, nodesNamed("n2", "n1"), c.data, c.old)
		if err != nil {
			t.Fatal(err)
		}
		sameParts(t, name+": problems", problems, c.want)
		sameParts(t, name+": warnings", warnings, c.warnings)
	}
}

// TestSLOConfigWithoutNodes: before there are nodes, the bound of one without labels counts.
func TestSLOConfigWithoutNodes(t *testing.T) {
	bounds := &sections.NodeAmplification{Pools: []sections.AmplificationPool{{Name: "default", MaxRatios: map[corev1.ResourceName]string{"cpu": "4"}}}}
	problems, warnings, err := runSLO(t, SLOOptions{Ratios: bounds.Sources(nil)}, nodesNamed(),
		map[string]string{slo.AmplificationKey: `{"enable":true,"resourceAmplificationRatio":{"cpu":5}}`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sameParts(t, "problems", problems, []string{"a node without labels gets cpu 5"})
	sameParts(t, "warnings", warnings, nil)
}

// sameParts compares texts with the parts that they must contain.
func sameParts(t *testing.T, what string, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s:\n got  %s\n want %s", what, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
	}
}

// TestSLOConfigOthers: other ConfigMaps, and ConfigMaps that are being deleted, are not checked.
func TestSLOConfigOthers(t *testing.T) {
	bad := map[string]string{slo.ColocationKey: "bad"}
	for _, c := range []struct {
		name     types.NamespacedName
		deleting bool
		want     int
	}{
		{sloMap, false, 1}, {sloMap, true, 0},
		{types.NamespacedName{Namespace: "default", Name: sloMap.Name}, false, 0}, {types.NamespacedName{Namespace: sloMap.Namespace, Name: "another"}, false, 0},
	} {
		req := &admit.Request{Namespace: c.name.Namespace, Object: configMap(t, c.name, bad, c.deleting)}
		list, err := sloConfig(SLOOptions{ConfigMap: sloMap}, nil).Run(t.Context(), req, views.AsConfigMap(req.Object))
		if err != nil || len(list) != c.want {
			t.Errorf("%v: %v, %v", c, list, err)
		}
	}
}

// TestSLOConfigDeletion: the deletion returns a warning, and is refused if the policy says so, except with its namespace.
func TestSLOConfigDeletion(t *testing.T) {
	set := map[string]string{slo.ColocationKey: `{"enable":true}`, slo.QoSKey: `{}`, "other": "x"}
	for _, c := range []struct {
		what           string
		name           types.NamespacedName
		data           map[string]string
		keep, goes     bool
		refused, warns bool
	}{
		{"deleted", sloMap, set, false, false, false, true},
		{"kept", sloMap, set, true, false, true, false},
		{"kept, with its namespace", sloMap, set, true, true, false, false},
		{"kept, but it sets nothing", sloMap, map[string]string{"other": "x"}, true, false, false, false},
		{"kept is not another", types.NamespacedName{Namespace: sloMap.Namespace, Name: "another"}, set, true, false, false, false},
	} {
		req := &admit.Request{Namespace: c.name.Namespace, Operation: "DELETE", OldObject: configMap(t, c.name, c.data, false)}
		options := SLOOptions{ConfigMap: sloMap, Keep: c.keep, NamespaceDeleting: func(string) (bool, error) { return c.goes, nil }}
		list, err := sloConfig(options, nil).Run(t.Context(), req, views.AsConfigMap(req.Subject()))
		if err != nil || (len(list) > 0) != c.refused || (len(req.Warnings()) > 0) != c.warns {
			t.Errorf("%s: %v, %v, warned %q", c.what, list, err, req.Warnings())
		}
		if text := fmt.Sprint(req.Warnings(), list); (c.refused || c.warns) &&
			!strings.Contains(text, "without colocation-config, resource-qos-config, Koordinator falls back") {
			t.Errorf("%s: %s", c.what, text)
		}
	}
}

// TestSLOConfigNodesNotReady: nodes are only needed where there can be a conflict; without them there is no guess.
func TestSLOConfigNodesNotReady(t *testing.T) {
	late := func() (iter.Seq2[string, map[string]string], error) {
		return nil, fmt.Errorf("nodes: %w", admit.ErrNotReady)
	}
	if _, _, err := runSLO(t, SLOOptions{}, late, map[string]string{slo.ColocationKey: nodeConfigs(selectX)}, nil); err != nil {
		t.Errorf("one entry: %v", err)
	}
	_, _, err := runSLO(t, SLOOptions{}, late, map[string]string{slo.ColocationKey: nodeConfigs(selectX, selectY)}, nil)
	if !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("two entries: %v", err)
	}
}

// FuzzSLOConfig: any text of any key gets an answer.
func FuzzSLOConfig(f *testing.F) {
	f.Add(slo.ColocationKey, nodeConfigs(selectX, selectY), "null")
	f.Add(slo.SystemKey, `{"clusterStrategy":null}`, "")
	f.Fuzz(func(t *testing.T, key, text, old string) {
		if _, _, err := runSLO(t, SLOOptions{NamesRequired: true}, nodesNamed("n"), map[string]string{key: text}, map[string]string{key: old}); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkSLOConfig validates 4 keys of 100 entries each against 5,000 nodes of 16 labels.
func BenchmarkSLOConfig(b *testing.B) {
	entries := make([]string, 100)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"name":"pool-%d","nodeSelector":{"matchLabels":{"kubernetes.io/os":"linux","pool":"%d"},"matchExpressions":[{"key":"kind","operator":"NotIn","values":["virtual"]}]},"%%s":%d}`, i, i, i)
	}
	list := strings.Join(entries, ",")
	data := map[string]string{
		slo.ColocationKey: `{"nodeConfigs":[` + strings.ReplaceAll(list, "%s", "midCPUThresholdPercent") + `]}`,
		slo.ThresholdKey:  `{"nodeStrategies":[` + strings.ReplaceAll(list, "%s", "cpuSuppressMinPercent") + `]}`,
		slo.CPUBurstKey:   `{"nodeStrategies":[` + strings.ReplaceAll(list, "%s", "sharePoolThresholdPercent") + `]}`,
		slo.QoSKey:        `{"nodeStrategies":[` + strings.ReplaceAll(list, `"%s":`, `"lsClass":{},"extra":`) + `]}`,
	}
	nodes := map[string]map[string]string{}
	for i := range 5000 {
		labels := map[string]string{"kubernetes.io/os": "linux", "pool": fmt.Sprint(i % 120)}
		for k := range 14 {
			labels[fmt.Sprint("example.com/label-", k)] = fmt.Sprint(i % (k + 2))
		}
		nodes[fmt.Sprint("node-", i)] = labels
	}
	ask := func() (iter.Seq2[string, map[string]string], error) { return maps.All(nodes), nil }
	b.ReportAllocs()
	for b.Loop() {
		if problems, _, err := runSLO(b, SLOOptions{}, ask, data, nil); err != nil || len(problems) > 0 {
			b.Fatal(problems, err)
		}
	}
}
