package validators

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/config"
)

// ratioPolicy has one pool with bounds for nodes labelled pool=small, and one with a ratio for pool=fixed.
const ratioPolicy = `nodeAmplification: {pools: [
  {name: small, selector: {matchLabels: {pool: small}}, maxRatios: {cpu: "2", memory: "1.25"}},
  {name: fixed, selector: {matchLabels: {pool: fixed}}, ratios: {cpu: "1.5"}}]}`

// ratioNode returns a node with a pool's label, an annotation, and the list of originals unless it is empty; "-" means
// no annotation.
func ratioNode(pool, ratio, raw string) string {
	annotations := map[string]string{api.AnnotationAmplificationRatio: ratio, api.AnnotationRawAllocatable: raw}
	for key, text := range annotations {
		if text == "-" || text == "" && key == api.AnnotationRawAllocatable {
			delete(annotations, key)
		}
	}
	node, _ := json.Marshal(map[string]any{"metadata": map[string]any{
		"name": "n1", "labels": map[string]string{"pool": pool}, "annotations": annotations}})
	return string(node)
}

// checkRatio runs the check as a user, and returns the texts of the problems, and the warnings.
func checkRatio(t testing.TB, user, old, node string, pods NodeRequests) (problems, warnings []string) {
	t.Helper()
	policy, wrong := config.Parse([]byte(ratioPolicy), config.Schema{sections.NodeAmplificationSection})
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	req := &admit.Request{Object: parsed(t, node)}
	if old != "" {
		req.OldObject = parsed(t, old)
	}
	req.UserInfo.Username = user
	found, err := amplificationRatio(config.SectionOf[*sections.NodeAmplification](policy), nil, pods).Run(t.Context(), req, admit.AsNode(req.Object))
	if err != nil || req.Object.Edits() > 0 {
		t.Fatalf("%v, %d edits", err, req.Object.Edits())
	}
	for _, warning := range req.Warnings() {
		if strings.HasSuffix(warning, "…") {
			t.Errorf("cut: %s", warning)
		}
	}
	return texts(found), req.Warnings()
}

func TestAmplificationRatio(t *testing.T) {
	const malformed, below, above = "write it like", "is below 1", "is above its bound"
	for _, c := range []struct {
		pool, ratio string
		wants       []string
	}{
		{"", "-", nil}, {"", "", nil}, {"", `{}`, nil},
		{"", `{"cpu":1}`, nil}, {"", `{"cpu":1.50,"memory":2.00}`, nil}, {"", `{"cpu":9999}`, nil}, {"", `{"cpu":15e-1}`, nil},
		{"small", `{"cpu":2,"memory":1.25}`, nil}, {"small", `{"cpu":2.00000000000}`, nil},

		{"", `{`, []string{malformed}}, {"", `[]`, []string{malformed}}, {"", `null`, []string{malformed}}, {"", `1.5`, []string{malformed}},
		{"", `{"cpu":1,"cpu":2}`, []string{malformed}}, {"", `{"cpu":1} `, nil}, {"", `{"cpu":1}x`, []string{malformed}},
		{"", `{"cpu":"1.5"}`, []string{`cpu: "1.5" is not a JSON number such as 1.5; it must be from 1 to 9999`}},
		{"", `{"cpu":null}`, []string{"cpu: null is not a JSON number"}},
		{"", `{"cpu":0.999999}`, []string{below}}, {"", `{"cpu":0}`, []string{below}}, {"", `{"cpu":-1.5}`, []string{below}},
		{"", `{"cpu":10000}`, []string{"is above 9999"}}, {"", `{"cpu":1e999999999}`, []string{"is not a JSON number"}},
		{"small", `{"cpu":2.01}`, []string{"2.01\": cpu " + above + "; it must be from 1 to 2, the bound of pool small"}},
		{"small", `{"cpu":3,"memory":3}`, []string{"cpu " + above, "memory " + above + "; it must be from 1 to 1.25"}},
		{"small", `{"cpu":0.5,"memory":3}`, []string{"cpu: 0.5 " + below + ", which would shrink the node; it must be from 1 to 2", "memory " + above}},
		{"", `{"eni":2}`, []string{`"eni": is not amplified: only cpu and memory are`}},
		{"", `{"CPU":2,"gpu":0}`, []string{`"CPU": must be written cpu`, `"gpu": is not amplified`}},
		{"fixed", `{"cpu":10000}`, []string{"is above 9999"}}, // refused, although the pool's ratio is used
	} {
		node := ratioNode(c.pool, c.ratio, "")
		for name, old := range map[string]string{"created": "", "added": ratioNode(c.pool, "-", ""), "changed": ratioNode(c.pool, `{"cpu":7}`, "")} {
			got, warnings := checkRatio(t, "admin", old, node, nil)
			if len(got) != len(c.wants) || len(warnings) > 0 {
				t.Errorf("%s %s %s: %q, warnings %q", name, c.pool, c.ratio, got, warnings)
				continue
			}
			for i, want := range c.wants {
				if !strings.Contains(got[i], want) || !strings.HasPrefix(got[i], "metadata.annotations["+api.AnnotationAmplificationRatio+"]: Invalid value: ") {
					t.Errorf("%s %s %s: %q, want %q", name, c.pool, c.ratio, got[i], want)
				}
			}
		}
		if got, _ := checkRatio(t, "admin", node, node, nil); len(got) > 0 {
			t.Errorf("%s stands there already: %q", c.ratio, got)
		}
	}
}

// Only changes are checked, and nothing on a node that is being deleted.
func TestAmplificationRatioLeavesTheRest(t *testing.T) {
	bad := ratioNode("small", `{"cpu":7}`, "")
	if got, _ := checkRatio(t, "admin", strings.Replace(bad, "small", "other", 1), bad, nil); len(got) > 0 {
		t.Errorf("another pool: %q", got)
	}
	if got, _ := checkRatio(t, "admin", bad, ratioNode("small", "-", ""), nil); len(got) > 0 {
		t.Errorf("taken away: %q", got)
	}
	if got, _ := checkRatio(t, "admin", "{}", strings.Replace(bad, `"name"`, `"deletionTimestamp":"2026-11-20T09:00:00Z","name"`, 1), nil); len(got) > 0 {
		t.Errorf("deleting: %q", got)
	}
}

func TestKubeletsRatio(t *testing.T) {
	with, without := ratioNode("", `{"cpu":1.5}`, ""), ratioNode("", "-", "")
	for _, c := range []struct {
		old, node string
		denied    bool
	}{{"", with, true}, {without, with, true}, {with, without, true}, {with, ratioNode("", `{"cpu":1.50}`, ""), true},
		{without, ratioNode("", "", ""), true}, {with, with, false}, {"", without, false}} {
		got, _ := checkRatio(t, "system:node:n1", c.old, c.node, nil)
		if denied := len(got) == 1 && strings.Contains(got[0], "Forbidden: a kubelet must not"); denied != c.denied || len(got) > 1 {
			t.Errorf("from %s to %s: %q", c.old, c.node, got)
		}
	}
}

func TestRatioLabels(t *testing.T) {
	label := func(pool, name, value string) string {
		return `{"metadata":{"name":"n1","labels":{"pool":"` + pool + `","node-restriction.kubernetes.io/overcommit-` + name + `":"` + value + `"}}}`
	}
	for _, c := range []struct{ pool, name, value, want string }{
		{"small", "cpu", "2", ""}, {"", "cpu", "5", ""}, {"", "gpu", "x", ""},
		{"small", "cpu", "2.1", `labels[node-restriction.kubernetes.io/overcommit-cpu]: Invalid value: "2.1": cpu is above its bound; it must be from 1 to 2`},
		{"small", "memory", "2", "memory is above its bound; it must be from 1 to 1.25, the bound of pool small"},
		{"", "cpu", "", "is not a decimal number"}, {"", "cpu", "0.5", "is below 1"}, {"", "cpu", "1e1", "is not a decimal number"},
	} {
		node := label(c.pool, c.name, c.value)
		got, _ := checkRatio(t, "admin", "{}", node, nil)
		if (c.want == "") != (len(got) == 0) || len(got) > 1 || len(got) == 1 && !strings.Contains(got[0], c.want) {
			t.Errorf("%s: %q", node, got)
		}
		if got, _ := checkRatio(t, "admin", node, node, nil); len(got) > 0 {
			t.Errorf("%s stands there already: %q", node, got)
		}
	}
}

// A ratio may always be lowered, with a warning about the pods.
func TestLoweredRatio(t *testing.T) {
	const raw = `{"cpu":"15900m","memory":"62914560Ki"}`
	asking := func(cpu, memory string) NodeRequests {
		return func(node string) (corev1.ResourceList, bool) {
			if node != "n1" {
				return nil, false
			}
			return corev1.ResourceList(list("cpu=" + cpu + " memory=" + memory)), true
		}
	}
	none := func(string) (corev1.ResourceList, bool) { return corev1.ResourceList{}, true }
	for i, c := range []struct {
		from, to, raw string
		pods          NodeRequests
		wants         []string
	}{
		{`{"cpu":2}`, `{"cpu":1.2}`, raw, asking("20", "1Gi"), []string{"cpu: pods ask for 20, 920m more than the 19080m left at ratio 1.2; new pods fail, and some at a restart"}},
		{`{"cpu":2}`, `{"cpu":1.5}`, raw, asking("20", "1Gi"), nil},
		{`{"cpu":2}`, `{"cpu":1.2}`, raw, asking("19080m", "1Gi"), nil},
		{`{"cpu":2}`, `-`, raw, asking("20", "1Gi"), []string{"cpu: pods ask for 20, 4100m more than the 15900m left at ratio 1;"}},
		{`{"cpu":2,"memory":2}`, `{}`, raw, asking("20", "99Gi"), []string{"cpu: pods", "memory: pods ask for 99Gi, 39Gi more than the 60Gi left at ratio 1;"}},
		{`{"cpu":1.2}`, `{"cpu":2}`, raw, asking("99", "99Gi"), nil},
		{`{"cpu":2}`, `{"cpu":1.2}`, "", asking("20", "1Gi"), nil}, // it was never amplified
		{`{"cpu":2}`, `{"cpu":1.2}`, "{", asking("20", "1Gi"), nil},
		{`{"cpu":2}`, `{"cpu":1.2}`, raw, nil, []string{"cpu: ratio 2 becomes 1.2; usher cannot tell whether the node's pods ask for more"}},
		{`{"cpu":2}`, `{"cpu":1.2}`, raw, func(string) (corev1.ResourceList, bool) { return nil, false }, []string{"usher cannot tell"}},
		{`{"cpu":2}`, `{"cpu":1.2}`, raw, none, nil},
	} {
		got, warnings := checkRatio(t, "admin", ratioNode("", c.from, c.raw), ratioNode("", c.to, c.raw), c.pods)
		if len(got) > 0 || len(warnings) != len(c.wants) || !allContain(warnings, c.wants) {
			t.Errorf("%d: %s to %s: %q, warnings %q", i, c.from, c.to, got, warnings)
		}
	}
	// An annotation cannot lower a ratio set by the pool; moving to another pool can.
	if _, warnings := checkRatio(t, "admin", ratioNode("fixed", `{"cpu":4}`, raw), ratioNode("fixed", "-", raw), asking("99", "1Gi")); len(warnings) > 0 {
		t.Errorf("the pool decides: %q", warnings)
	}
	if _, warnings := checkRatio(t, "admin", ratioNode("fixed", "-", raw), ratioNode("", "-", raw), asking("99", "1Gi")); len(warnings) != 1 {
		t.Errorf("another pool: %q", warnings)
	}
}

// FuzzAmplificationRatio: the heartbeat can apply every accepted ratio.
func FuzzAmplificationRatio(f *testing.F) {
	for _, seed := range []string{`{"cpu":1.5}`, `{"cpu":1e1,"memory":2.0}`, `{"CPU":2}`, `null`, `{`, `{"cpu":{}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, ratio string) {
		node := ratioNode("small", ratio, "")
		problems, _ := checkRatio(t, "admin", "", node, nil)
		policy, _ := config.Parse([]byte(ratioPolicy), config.Schema{sections.NodeAmplificationSection})
		said := config.SectionOf[*sections.NodeAmplification](policy).Sources(nil).For(admit.AsNode(parsed(t, node)))
		obeyed := said.Malformed == nil && len(said.Foreign) == 0
		for _, w := range said.Of {
			obeyed = obeyed && w.Wrong == nil
		}
		if obeyed != (len(problems) == 0) {
			t.Errorf("%q: problems %q, but a heartbeat says %s", ratio, problems, fmt.Sprint(said))
		}
	})
}
