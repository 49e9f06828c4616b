package slo

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/seed"
)

func always(string) bool { return true }

func nodesOf(nodes map[string]map[string]string) iter.Seq2[string, map[string]string] {
	return maps.All(nodes)
}

// twoEntries returns a configuration with two entries, x first, given the YAML of their selectors.
func twoEntries(t testing.TB, x, y string) *Config {
	t.Helper()
	return Compile(map[string]string{ColocationKey: asJSON(t, fmt.Sprintf(`nodeConfigs: [{name: x, nodeSelector: {%s}}, {name: "y", nodeSelector: {%s}}]`, x, y))})
}

// TestOverlapProblem: the problem is at the later entry, and names the earlier ones and the labels of a node in both.
func TestOverlapProblem(t *testing.T) {
	c := twoEntries(t, `matchLabels: {a: b}`, `matchLabels: {a: b, c: d}`)
	same(t, "overlap", errorsOf(c), []string{`[colocation-config].nodeConfigs[1].nodeSelector: Invalid value: "nodeConfigs[1] (y)": overlaps with nodeConfigs[0] (x): ` +
		`a node with labels a=b,c=d is selected by both, and only the first counts; make the selectors exclude each other`})
	if c := twoEntries(t, `matchLabels: {a: b}`, `matchLabels: {c: d}`); len(c.Problems(nil)) > 0 {
		t.Error(c.Problems(nil))
	}
	c = twoEntries(t, `matchExpressions: [{key: a, operator: In, values: [b, c]}]`, `matchExpressions: [{key: a, operator: In, values: [b, c]}]`)
	if got := errorsOf(c); len(got) != 1 || !strings.Contains(got[0], "overlaps with nodeConfigs[0] (x): a node") {
		t.Errorf("the same twice: %v", got)
	}
	c = twoEntries(t, `matchLabels: {a: "& b"}`, `matchExpressions: [{key: a, operator: DoesNotExist}]`)
	if got := errorsOf(c); len(got) != 1 || !strings.Contains(got[0], "nodeConfigs[0].nodeSelector.matchLabels[a]") {
		t.Errorf("a broken selector overlaps: %v", got)
	}
	across := Compile(map[string]string{
		ColocationKey: `{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":"b"}}}]}`, HostAppKey: `{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":"b"}}}]}`,
	})
	if len(across.Problems(nil)) > 0 || len(across.Conflicts(map[string]string{"a": "b"})) > 0 {
		t.Errorf("entries of two keys: %v", across.Problems(nil))
	}
	many := make([]string, 15)
	for i := range many {
		many[i] = `{"nodeSelector":{"matchLabels":{"a":"b"}}}`
	}
	c = Compile(map[string]string{ColocationKey: `{"nodeConfigs":[` + strings.Join(many, ",") + `]}`})
	if got := c.Problems(nil); len(got) != 14 {
		t.Errorf("15 entries that all overlap: %d problems: %v", len(got), got)
	}
}

// TestNodeProblems: nodes that several entries select.
func TestNodeProblems(t *testing.T) {
	for _, count := range []int{5, 500} {
		nodes := map[string]map[string]string{}
		for i := range count {
			n := fmt.Sprint(i)
			nodes["node-"+n] = map[string]string{n: n, "name": n}
		}
		for _, c := range []struct{ x, y, want string }{
			{`matchLabels: {"1": "1"}`, `matchLabels: {"2": "2"}`, ""},
			{`matchLabels: {"3": "3"}`, `matchLabels: {name: "3"}`, "node-3"},
			{`matchExpressions: [{key: name, operator: In, values: ["3", "4"]}]`, `matchLabels: {name: "3"}`, "node-3"},
			{`matchExpressions: [{key: name, operator: In, values: ["0", "1", "2", "3", "4", "x"]}]`, `matchExpressions: [{key: name, operator: In, values: ["0", "1", "2", "3", "4", "x"]}]`, "node-0, node-1, node-2, node-3, node-4"},
		} {
			got := twoEntries(t, c.x, c.y).NodeProblems(nodesOf(nodes), always)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("%s and %s: %v", c.x, c.y, got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Error(), `data[colocation-config].nodeConfigs[1].nodeSelector: Invalid value: "nodeConfigs[1] (y)": `+
				"nodeConfigs[0] (x), nodeConfigs[1] (y) all select the nodes "+c.want+", and only")):
				t.Errorf("%s and %s: %v", c.x, c.y, got)
			}
		}
	}
}

// TestNodeProblemsAreDeterministic: the same texts in whatever order of the nodes, with at most ten names.
func TestNodeProblemsAreDeterministic(t *testing.T) {
	c := twoEntries(t, `matchLabels: {a: "1"}`, `matchLabels: {b: "1"}`)
	nodes := map[string]map[string]string{}
	for i := range 25 {
		nodes[fmt.Sprintf("n%02d", i)] = map[string]string{"a": "1", "b": "1"}
	}
	first := c.NodeProblems(nodesOf(nodes), always)
	if want := "the nodes n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 15 more, and"; len(first) != 1 || !strings.Contains(first[0].Error(), want) {
		t.Fatalf("%v, want %s", first, want)
	}
	for range 20 {
		if again := c.NodeProblems(nodesOf(nodes), always); again[0].Error() != first[0].Error() {
			t.Fatalf("%v, before %v", again, first)
		}
	}
	if got := c.NodeProblems(nodesOf(nodes), func(key string) bool { return key == SystemKey }); len(got) > 0 {
		t.Errorf("another key changed: %v", got)
	}
}

// TestConflicts: which entries select a node, and which conflicts are new.
func TestConflicts(t *testing.T) {
	c := Compile(map[string]string{
		ColocationKey: `{"nodeConfigs":[{"name":"x","nodeSelector":{"matchLabels":{"x":"1"}}},{"name":"y","nodeSelector":{"matchLabels":{"y":"1"}}},{"nodeSelector":{"matchExpressions":[{"key":"z","operator":"Exists"}]}},{"nodeSelector":{}}]}`,
		SystemKey:     `{"nodeStrategies":[{"name":"x","nodeSelector":{"matchLabels":{"x":"1"}}},{"name":"y","nodeSelector":{"matchLabels":{"y":"1"}}}]}`,
		CPUBurstKey:   `broken`,
	})
	text := func(labels map[string]string) string { return fmt.Sprint(c.Conflicts(labels)) }
	for want, labels := range map[string]map[string]string{
		"[]": {"x": "1"},
		"[colocation-config: nodeConfigs[0] (x), nodeConfigs[2] select this node; only the first counts]": {"x": "1", "z": ""},
		"[colocation-config: nodeConfigs[0] (x), nodeConfigs[1] (y) select this node; only the first counts " +
			"system-config: nodeStrategies[0] (x), nodeStrategies[1] (y) select this node; only the first counts]": {"x": "1", "y": "1"},
	} {
		if got := text(labels); got != want {
			t.Errorf("%v: %s, want %s", labels, got, want)
		}
	}
	xy, xyz := c.Conflicts(map[string]string{"x": "1", "y": "1"}), c.Conflicts(map[string]string{"x": "1", "y": "1", "z": "1"})
	if !xy[0].Within(xyz) || xyz[0].Within(xy) || xy[0].Within(nil) || !xyz[1].Within(xy) {
		t.Error("which conflicts are within others is wrong")
	}
	var none *Config
	if none.Conflicts(map[string]string{"x": "1"}) != nil || none.Amplification(nil) != nil || none.Problems(nil) != nil || none.Warnings() != nil {
		t.Error("nil says something")
	}
}

// TestNames: only checked on request.
func TestNames(t *testing.T) {
	c := Compile(map[string]string{
		ColocationKey: `{"nodeConfigs":[{"name":"x","nodeSelector":{"matchLabels":{"x":"1"}}},{"name":"x","nodeSelector":{"matchLabels":{"y":"1"}}},{"nodeSelector":{"matchLabels":{"z":"1"}}},{"name":"x","nodeSelector":{"matchLabels":{"w":"1"}}}]}`,
		SystemKey:     `{"nodeStrategies":[]}`, CPUBurstKey: `{}`,
	})
	same(t, "without", errorsOf(c), nil)
	var got []string
	for _, p := range c.NameProblems(always) {
		got = append(got, p.Error())
	}
	same(t, "with", got, []string{
		`data[colocation-config].nodeConfigs[1].name: Invalid value: "x": is the name of nodeConfigs[0] too; give each entry its own`,
		`data[colocation-config].nodeConfigs[2].name: Required value: every entry needs a name of its own`,
		`data[colocation-config].nodeConfigs[3].name: Invalid value: "x": is the name of nodeConfigs[0] too`,
	})
	if got := c.NameProblems(func(string) bool { return false }); len(got) > 0 {
		t.Errorf("nothing changed: %v", got)
	}
}

// TestAmplification: the first entry overrides the cluster's strategy.
func TestAmplification(t *testing.T) {
	c := Compile(map[string]string{ColocationKey: `{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"pool":"big"}}}]}`, AmplificationKey: asJSON(t, `{enable: true, resourceAmplificationRatio: {cpu: 1.5, memory: 1, broken: 0.5, text: "2"}, nodeConfigs: [
		{nodeSelector: {matchLabels: {pool: big}}, resourceAmplificationRatio: {cpu: 2.25, nvidia.com/gpu: 3}},
		{nodeSelector: {matchLabels: {pool: "off"}}, enable: false}]}`)})
	for pool, want := range map[string]map[string]string{
		"":    {"cpu": "1.5", "memory": "1"},
		"big": {"cpu": "2.25", "memory": "1"},
		"off": nil,
	} {
		if got := c.Amplification(map[string]string{"pool": pool}); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("pool %q: %v, want %v", pool, got, want)
		}
	}
	if got := Compile(map[string]string{AmplificationKey: `{"resourceAmplificationRatio":{"cpu":2}}`}).Amplification(nil); got != nil {
		t.Errorf("not enabled: %v", got)
	}
}

// TestConflictsAgainstEveryEntry compares random configurations and nodes with a check of every entry.
func TestConflictsAgainstEveryEntry(t *testing.T) {
	random := seed.Random(t)
	for range 200 {
		var entries []string
		for range 2 + random.IntN(6) {
			entries = append(entries, fmt.Sprintf(`{"nodeSelector":{"matchExpressions":[{"key":"a","operator":"NotIn","values":["%d"]}],"matchLabels":{"%c":"%d"}}}`,
				random.IntN(3), 'a'+random.IntN(3), random.IntN(3)))
		}
		c := Compile(map[string]string{SystemKey: `{"nodeStrategies":[` + strings.Join(entries, ",") + `]}`})
		for _, set := range universe() {
			var want []int
			for i := range c.entries {
				if c.entries[i].selector.Matches(set) {
					want = append(want, i)
				}
			}
			got := c.Conflicts(set)
			if len(want) > 1 != (len(got) == 1) || len(got) == 1 && !slices.Equal(got[0].numbers, want) {
				t.Fatalf("%v: %v, want %v", set, got, want)
			}
		}
	}
}

// bigConfig has 100 entries under each of the four keys with entries for nodes.
func bigConfig(broken bool) map[string]string {
	var entries []string
	for i := range 100 {
		team := i
		if broken && i == 99 {
			team = 98
		}
		entries = append(entries, fmt.Sprintf(`{"name":"pool-%d","nodeSelector":{"matchLabels":{"kubernetes.io/os":"linux","pool":"%d"},"matchExpressions":[{"key":"kind","operator":"NotIn","values":["virtual"]}]}}`, i, team))
	}
	list := strings.Join(entries, ",")
	return map[string]string{
		ColocationKey: `{"enable":true,"nodeConfigs":[` + list + `]}`, ThresholdKey: `{"nodeStrategies":[` + list + `]}`,
		QoSKey: `{"nodeStrategies":[` + list + `]}`, CPUBurstKey: `{"nodeStrategies":[` + list + `]}`,
	}
}

func bigNodes() map[string]map[string]string {
	nodes := map[string]map[string]string{}
	for i := range 5000 {
		labels := map[string]string{"kubernetes.io/os": "linux", "pool": fmt.Sprint(i % 120), "kubernetes.io/hostname": fmt.Sprint("n", i)}
		for k := range 12 {
			labels[fmt.Sprint("example.com/label-", k)] = fmt.Sprint(i % (k + 2))
		}
		nodes[fmt.Sprintf("node-%04d", i)] = labels
	}
	return nodes
}

// BenchmarkCompile: 4 keys of 100 entries.
func BenchmarkCompile(b *testing.B) {
	data := bigConfig(false)
	b.ReportAllocs()
	for b.Loop() {
		if c := Compile(data); len(c.Problems(nil)) > 0 {
			b.Fatal(c.Problems(nil))
		}
	}
}

// BenchmarkNodes: 4 keys of 100 entries, and 5,000 nodes.
func BenchmarkNodes(b *testing.B) {
	for name, broken := range map[string]bool{"clean": false, "conflicts": true} {
		c, nodes := Compile(bigConfig(broken)), bigNodes()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := c.NodeProblems(nodesOf(nodes), always); len(got) > 0 != broken {
					b.Fatal(got)
				}
			}
		})
	}
}

// BenchmarkConflicts: the labels of one node.
func BenchmarkConflicts(b *testing.B) {
	c, labels := Compile(bigConfig(false)), bigNodes()["node-0042"]
	b.ReportAllocs()
	for b.Loop() {
		if got := c.Conflicts(labels); len(got) > 0 {
			b.Fatal(got)
		}
	}
}
