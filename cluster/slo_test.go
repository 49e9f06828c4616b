package cluster

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
)

// TestSLOSamples: both ConfigMaps of the samples are found, each by the kind that wants it, and nothing is wrong with them.
func TestSLOSamples(t *testing.T) {
	c, err := Files("../samples/cluster", Options{Kinds: []Kind{Nodes, EnhancedRules, SLOConfig}})
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Problems(); len(p) > 0 {
		t.Error(p)
	}
	if rules, err := c.Now().LabelRules(); err != nil || len(rules) == 0 {
		t.Errorf("LabelRules: %v %v", rules, err)
	}
	config, err := c.Now().SLOConfig()
	if err != nil || len(config.Conflicts(map[string]string{"node-pool": "colocation", "accelerator": "gpu"})) != 2 {
		t.Errorf("SLOConfig: %v %v", config, err)
	}
	nodes, err := c.Now().AllNodes()
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Collect(nodes)
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"worker-a", "worker-b", "worker-c"}) || all["worker-c"]["accelerator"] != "gpu" {
		t.Errorf("AllNodes: %v", all)
	}
	for range nodes {
		break // it can be left early
	}
	if problems := config.NodeProblems(nodes, func(string) bool { return true }); len(problems) > 0 {
		t.Errorf("the sample nodes are in conflict: %v", problems)
	}
}

// TestSLOConfig: one compiled configuration for each version of the ConfigMap. What is wrong with it is shown; the rest counts.
func TestSLOConfig(t *testing.T) {
	c := newCluster(Options{Kinds: []Kind{SLOConfig, Nodes}}, nil)
	if _, err := c.Now().SLOConfig(); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("before it is listed: %v", err)
	}
	if _, err := c.Now().AllNodes(); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("nodes before they are listed: %v", err)
	}
	_ = (&store{c, SLOConfig}).Replace(nil, "")
	for _, step := range []struct {
		name, data string
		there      bool
		problem    string
	}{
		{"not there", ``, false, ""},
		{"there", `{"colocation-config":"{}"}`, true, ""},
		{"no data", `null`, true, ""},
		{"broken", `{"colocation-config":"{","system-config":"null"}`, true, "data[colocation-config]: Invalid value"},
		{"gone", ``, false, ""},
	} {
		object := ""
		if step.data != "" {
			object = `{"data":` + step.data + `}`
		}
		event{SLOConfig, "koordinator-system/slo-controller-config", object}.send(t, c)
		config, err := c.Now().SLOConfig()
		if again, _ := c.Now().SLOConfig(); err != nil || (config != nil) != step.there || again != config {
			t.Errorf("%s: %v %v", step.name, config, err)
		}
		problems := errors.Join(c.Problems()...)
		if (problems != nil) != (step.problem != "") || problems != nil && !strings.Contains(problems.Error(), step.problem) {
			t.Errorf("%s: problems: %v", step.name, problems)
		}
	}
}

// TestSLOConfigElsewhere: which ConfigMap it is can be said, and its rights name just that one.
func TestSLOConfigElsewhere(t *testing.T) {
	dir := write(t, "", map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: k}\ndata: {system-config: '{'}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slo-controller-config, namespace: koordinator-system}\n"})
	o := Options{Kinds: []Kind{EnhancedRules, SLOConfig}, SLOConfig: types.NamespacedName{Namespace: "k", Name: "s"}}
	c, err := Files(dir, o)
	if err != nil || len(c.Problems()) != 1 {
		t.Errorf("%v %v", c.Problems(), err)
	}
	rules := o.Rules()
	if len(rules) != 2 || !slices.Equal(rules[0].ResourceNames, []string{DefaultEnhancedRules.Name}) || !slices.Equal(rules[1].ResourceNames, []string{"s"}) {
		t.Errorf("%v", rules)
	}
}
