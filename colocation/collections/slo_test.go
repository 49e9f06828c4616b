package collections

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/test/clustertest"
)

// TestSLOSamples: both ConfigMaps of the samples are found, each by its own collection, and have no problems.
func TestSLOSamples(t *testing.T) {
	s, c := samples(t, "nodes", "enhancedrules", "sloconfig")
	if p := c.Problems(); len(p) > 0 {
		t.Error(p)
	}
	if rules, err := s.LabelRules(); err != nil || len(rules) == 0 {
		t.Errorf("LabelRules: %v %v", rules, err)
	}
	config, err := s.SLOConfig()
	if err != nil || len(config.Conflicts(map[string]string{"node-pool": "colocation", "accelerator": "gpu"})) != 2 {
		t.Errorf("SLOConfig: %v %v", config, err)
	}
	nodes, err := s.AllNodes()
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Collect(nodes)
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"worker-a", "worker-b", "worker-c"}) || all["worker-c"]["accelerator"] != "gpu" {
		t.Errorf("AllNodes: %v", all)
	}
	for range nodes {
		break // the iteration can be ended early
	}
	if problems := config.NodeProblems(nodes, func(string) bool { return true }); len(problems) > 0 {
		t.Errorf("the sample nodes are in conflict: %v", problems)
	}
}

// TestSLOConfig: one compiled configuration for each version of the ConfigMap. Its problems are shown; the rest
// applies.
func TestSLOConfig(t *testing.T) {
	early := notListed(t, "sloconfig", "nodes")
	if _, err := early.SLOConfig(); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("before it is listed: %v", err)
	}
	if _, err := early.AllNodes(); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("nodes before they are listed: %v", err)
	}
	f := clustertest.New(t)
	s, c := watching(t, f, keeping("sloconfig"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
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
		before, _ := s.SLOConfig()
		f.Apply(kind(&SLOConfig.Collection), "koordinator-system/slo-controller-config", object)
		if step.name != "not there" {
			clustertest.Eventually(t, step.name, func() bool { now, _ := s.SLOConfig(); return now != before })
		}
		config, err := s.SLOConfig()
		if again, _ := s.SLOConfig(); err != nil || (config != nil) != step.there || again != config {
			t.Errorf("%s: %v %v", step.name, config, err)
		}
		problems := errors.Join(c.Problems()...)
		if (problems != nil) != (step.problem != "") || problems != nil && !strings.Contains(problems.Error(), step.problem) {
			t.Errorf("%s: problems: %v", step.name, problems)
		}
	}
}

// TestSLOConfigElsewhere: another ConfigMap can be chosen, and the permissions name only that one.
func TestSLOConfigElsewhere(t *testing.T) {
	at := types.NamespacedName{Namespace: "k", Name: "s"}
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: k}\ndata: {system-config: '{'}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slo-controller-config, namespace: koordinator-system}\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	o := cluster.Options{Catalogue: Catalogue(types.NamespacedName{}, at), Needs: []string{"enhancedrules", "sloconfig"}}
	c, err := cluster.Files(dir, o)
	if err != nil || len(c.Problems()) != 1 {
		t.Fatalf("%v", err)
	}
	rules := o.Rules()
	if len(rules) != 2 || !slices.Equal(rules[0].ResourceNames, []string{DefaultLabelRules.Name}) || !slices.Equal(rules[1].ResourceNames, []string{"s"}) {
		t.Errorf("%v", rules)
	}
}
