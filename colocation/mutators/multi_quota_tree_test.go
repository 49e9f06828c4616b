package mutators

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// twoTrees are the quotas of the reference's tests, and a quota of a tree without a profile.
func twoTrees() (*quota.Tree, error) {
	return quota.NewTree([]*quota.Quota{
		{Name: "other-quota", Namespace: "kube-system"},
		{Name: "tree1-root", Namespace: "kube-system", TreeID: "tree1", IsRoot: true, IsParent: true},
		{Name: "tree1-child", Namespace: "kube-system", TreeID: "tree1", Parent: "tree1-root"},
		{Name: "namespace1", Namespace: "namespace1", TreeID: "tree1", Parent: "tree1-root"},
		{Name: "tree2-root", Namespace: "kube-system", TreeID: "tree2", IsRoot: true, IsParent: true, Namespaces: []string{"namespace2"}},
		{Name: "tree2-child", Namespace: "kube-system", TreeID: "tree2", Parent: "tree2-root"},
		{Name: "tree3-child", Namespace: "kube-system", TreeID: "tree3"},
		{Name: "elsewhere", Namespace: "kube-system", TreeID: "tree1"},
	}), nil
}

// treeProfile returns a profile; its node selector is JSON.
func treeProfile(t *testing.T, namespace, name, tree, selector string) *api.ElasticQuotaProfile {
	t.Helper()
	p := &api.ElasticQuotaProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{api.LabelQuotaTreeID: tree}}}
	if err := json.Unmarshal([]byte(selector), &p.Spec.NodeSelector); err != nil {
		t.Fatal(err)
	}
	return p
}

func pool(name string) string { return `{"matchLabels":{"node-pool":"` + name + `"}}` }

func someProfiles(list ...*api.ElasticQuotaProfile) func() ([]*api.ElasticQuotaProfile, error) {
	return func() ([]*api.ElasticQuotaProfile, error) { return list, nil }
}

// treeCase is a pod in a namespace, with a quota label ("": none) and some required node terms ("": no affinity).
type treeCase struct{ name, namespace, label, terms string }

func (c treeCase) pod() string {
	labels, spec := `{}`, `{}`
	if c.label != "" {
		labels = fmt.Sprintf(`{%q:%q}`, api.LabelQuotaName, c.label)
	}
	if c.terms != "" {
		spec = `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` + c.terms + `}}}}`
	}
	return `{"metadata":{"labels":` + labels + `},"spec":` + spec + `}`
}

// run returns the terms after the step as JSON, and the warnings. A second run must give no patch.
func (c treeCase) run(t *testing.T, ask TreeQuestions) (terms, warnings string) {
	t.Helper()
	raw := c.pod()
	for again := range 2 {
		d, err := document.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		req := &admit.Request{Object: d, Operation: "CREATE", Namespace: c.namespace}
		if err := multiQuotaTree(ask).Run(t.Context(), req, admit.AsPod(d)); err != nil || d.Err() != nil {
			t.Fatalf("%s: %v, %v", c.name, err, d.Err())
		}
		if again == 1 && d.PatchJSON() != nil {
			t.Errorf("%s: not idempotent: %s", c.name, d.PatchJSON())
		}
		for _, w := range req.Warnings() {
			if strings.HasSuffix(w, "…") {
				t.Errorf("%s: a warning is cut: %s", c.name, w)
			}
		}
		raw, warnings = string(d.Bytes()), strings.Join(req.Warnings(), "\n")
		terms = string(d.Root().At("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").Bytes())
	}
	return terms, warnings
}

const (
	inPoolA = `{"key":"node-pool","operator":"In","values":["nodePoolA"]}`
	inPoolB = `{"key":"node-pool","operator":"In","values":["nodePoolB"]}`
	inZone  = `{"key":"zone","operator":"In","values":["east"]}`
)

// The cases of the reference.
func TestMultiQuotaTree(t *testing.T) {
	ask := TreeQuestions{QuotaTree: twoTrees, QuotaProfiles: someProfiles(
		treeProfile(t, "kube-system", "b", "tree2", pool("nodePoolB")), treeProfile(t, "kube-system", "a", "tree1", pool("nodePoolA")))}
	const onlyA, onlyB = `[{"matchExpressions":[` + inPoolA + `]}]`, `[{"matchExpressions":[` + inPoolB + `]}]`
	for _, c := range []struct {
		treeCase
		want, warning string
	}{
		{treeCase{"default, no label", "default", "", ""}, "", ""},
		{treeCase{"other-quota", "default", "other-quota", ""}, "", ""},
		{treeCase{"tree1 child", "default", "tree1-child", ""}, onlyA, ""},
		{treeCase{"tree1 child with a zone", "default", "tree1-child", `[{"matchExpressions":[` + inZone + `]}]`}, `[{"matchExpressions":[` + inZone + `,` + inPoolA + `]}]`, ""},
		{treeCase{"tree2 child", "default", "tree2-child", ""}, onlyB, ""},
		{treeCase{"namespace1", "namespace1", "", ""}, onlyA, ""},
		{treeCase{"namespace2", "namespace2", "", ""}, onlyB, ""},

		{treeCase{"the label wins", "namespace2", "tree1-child", ""}, onlyA, ""},
		{treeCase{"the label wins, and names no tree", "namespace2", "other-quota", ""}, "", ""},
		{treeCase{"unknown label", "namespace2", "quota2", ""}, "", `label quota.scheduling.koordinator.sh/name: no elastic quota is named "quota2"; the pod may run on nodes of any quota tree`},
		{treeCase{"a quota with the namespace's name, elsewhere", "elsewhere", "", ""}, "", ""},
		{treeCase{"reserved", "namespace2", api.DefaultQuota, ""}, "", ""},
		{treeCase{"no profile for the tree", "default", "tree3-child", ""}, "", ""},

		{treeCase{"every term", "default", "tree1-child", `[{"matchExpressions":[` + inZone + `]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]`},
			`[{"matchExpressions":[` + inZone + `,` + inPoolA + `]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}],"matchExpressions":[` + inPoolA + `]}]`, ""},
		{treeCase{"there already", "default", "tree1-child", `[{"matchExpressions":[` + inPoolA + `,` + inZone + `]},{"matchExpressions":[` + inZone + `]}]`},
			`[{"matchExpressions":[` + inPoolA + `,` + inZone + `]},{"matchExpressions":[` + inZone + `,` + inPoolA + `]}]`, ""},
		{treeCase{"another pool", "default", "tree1-child", onlyB}, `[{"matchExpressions":[` + inPoolB + `,` + inPoolA + `]}]`, ""},
		{treeCase{"no terms", "default", "tree1-child", `[]`}, onlyA, ""},
		{treeCase{"null terms", "default", "tree1-child", `null`}, onlyA, ""},
		{treeCase{"an empty term goes on matching no node", "default", "tree1-child", `[{},{"matchExpressions":[` + inZone + `]},{"matchExpressions":[],"matchFields":null}]`},
			`[{},{"matchExpressions":[` + inZone + `,` + inPoolA + `]},{"matchExpressions":[],"matchFields":null}]`, ""},
		{treeCase{"unknown fields", "default", "tree1-child", `[{"future":{"a":1},"matchExpressions":[{"key":"zone","operator":"Exists","weight":7}]}]`},
			`[{"future":{"a":1},"matchExpressions":[{"key":"zone","operator":"Exists","weight":7},` + inPoolA + `]}]`, ""},
	} {
		if terms, warning := c.run(t, ask); terms != c.want || warning != c.warning {
			t.Errorf("%s: %s, %q\nwant %s, %q", c.name, terms, warning, c.want, c.warning)
		}
	}
}

// The content of a profile, and the choice among several profiles.
func TestMultiQuotaTreeProfiles(t *testing.T) {
	of := func(namespace, name, selector string) *api.ElasticQuotaProfile {
		return treeProfile(t, namespace, name, "tree1", selector)
	}
	const two = `2 elastic quota profiles are for quota tree "tree1"; `
	for _, c := range []struct {
		name     string
		profiles []*api.ElasticQuotaProfile
		terms    string
		want     string
		warning  string
	}{
		{"none", nil, "", "", ""},
		{"null selector", []*api.ElasticQuotaProfile{of("a", "a", "null")}, "", "", ""},
		{"empty selector", []*api.ElasticQuotaProfile{of("a", "a", "{}")}, "", "", ""},
		{"empty selector, a term", []*api.ElasticQuotaProfile{of("a", "a", "{}")}, `[{"matchExpressions":[` + inZone + `]}]`, `[{"matchExpressions":[` + inZone + `]}]`, ""},
		{"labels in order, then expressions as they stand",
			[]*api.ElasticQuotaProfile{of("a", "a", `{"matchLabels":{"d":"4","b":"2","a":"1","c":"3"},"matchExpressions":[{"key":"z","operator":"Exists"},{"key":"y","operator":"NotIn","values":["2","1"]},{"key":"x","operator":"DoesNotExist"}]}`)}, "",
			`[{"matchExpressions":[{"key":"a","operator":"In","values":["1"]},{"key":"b","operator":"In","values":["2"]},{"key":"c","operator":"In","values":["3"]},{"key":"d","operator":"In","values":["4"]},` +
				`{"key":"z","operator":"Exists"},{"key":"y","operator":"NotIn","values":["2","1"]},{"key":"x","operator":"DoesNotExist"}]}]`, ""},
		{"there in another order", []*api.ElasticQuotaProfile{of("a", "a", `{"matchExpressions":[{"key":"y","operator":"In","values":["2","1"]}]}`)},
			`[{"matchExpressions":[{"key":"y","operator":"In","values":["1","2","1"]}]}]`, `[{"matchExpressions":[{"key":"y","operator":"In","values":["1","2","1"]}]}]`, ""},
		{"another operator", []*api.ElasticQuotaProfile{of("a", "a", `{"matchExpressions":[{"key":"y","operator":"In","values":["1"]}]}`)},
			`[{"matchExpressions":[{"key":"y","operator":"NotIn","values":["1"]}]}]`, `[{"matchExpressions":[{"key":"y","operator":"NotIn","values":["1"]},{"key":"y","operator":"In","values":["1"]}]}]`, ""},
		{"fewer values", []*api.ElasticQuotaProfile{of("a", "a", `{"matchExpressions":[{"key":"y","operator":"In","values":["1","2"]}]}`)},
			`[{"matchExpressions":[{"key":"y","operator":"In","values":["1"]}]}]`, `[{"matchExpressions":[{"key":"y","operator":"In","values":["1"]},{"key":"y","operator":"In","values":["1","2"]}]}]`, ""},
		{"the first by name", []*api.ElasticQuotaProfile{of("a", "z", pool("nodePoolB")), of("a", "b", pool("nodePoolA"))}, "", `[{"matchExpressions":[` + inPoolA + `]}]`, two + "a/b decides on the nodes"},
		{"the first by namespace", []*api.ElasticQuotaProfile{of("a", "z", pool("nodePoolB")), of("b", "b", pool("nodePoolA"))}, "", `[{"matchExpressions":[` + inPoolB + `]}]`, two + "a/z decides on the nodes"},
		{"another tree's does not count", []*api.ElasticQuotaProfile{treeProfile(t, "a", "a", "tree2", pool("nodePoolB")), of("b", "b", pool("nodePoolA"))}, "", `[{"matchExpressions":[` + inPoolA + `]}]`, ""},
		{"a selector that is none", []*api.ElasticQuotaProfile{of("a", "a", `{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"y","operator":"Is"}]}`)}, "", "",
			`elastic quota profile a/a is broken, not applied: spec.nodeSelector: "Is" is not a valid label selector operator`},
	} {
		ask := TreeQuestions{QuotaTree: twoTrees, QuotaProfiles: someProfiles(c.profiles...)}
		terms, warning := treeCase{c.name, "default", "tree1-child", c.terms}.run(t, ask)
		if terms != c.want || warning != c.warning {
			t.Errorf("%s: %s, %q\nwant %s, %q", c.name, terms, warning, c.want, c.warning)
		}
	}
}

func TestMultiQuotaTreeAsks(t *testing.T) {
	down := fmt.Errorf("a cause: %w", admit.ErrNotReady)
	late := TreeQuestions{QuotaTree: func() (*quota.Tree, error) { return nil, down }}
	lateProfiles := TreeQuestions{QuotaTree: twoTrees, QuotaProfiles: func() ([]*api.ElasticQuotaProfile, error) { return nil, down }}
	labelOnly := TreeQuestions{QuotaTree: twoTrees, QuotaProfiles: lateProfiles.QuotaProfiles, LabelOnly: true}
	for _, c := range []struct {
		name      string
		ask       TreeQuestions
		operation string
		label     string
		late      bool
	}{
		{"no quotas", TreeQuestions{}, "CREATE", "tree1-child", false},
		{"quotas are late", late, "CREATE", "", true},
		{"profiles are late", lateProfiles, "CREATE", "tree1-child", true},
		{"profiles are late, by the namespace", lateProfiles, "CREATE", "", true},
		{"profiles do not matter", lateProfiles, "CREATE", "other-quota", false},
		{"only labels count", labelOnly, "CREATE", "", false},
		{"an update", late, "UPDATE", "tree1-child", false},
	} {
		d, _ := document.Parse([]byte(treeCase{label: c.label}.pod()))
		req := &admit.Request{Object: d, Namespace: "namespace1", Operation: admissionv1.Operation(c.operation)}
		err := multiQuotaTree(c.ask).Run(t.Context(), req, admit.AsPod(d))
		if errors.Is(err, admit.ErrNotReady) != c.late || !c.late && err != nil || d.Edits() > 0 || len(req.Warnings()) > 0 {
			t.Errorf("%s: %v, %d edits, %q", c.name, err, d.Edits(), req.Warnings())
		}
	}
}

func TestMultiQuotaTreePatch(t *testing.T) {
	ask := TreeQuestions{QuotaTree: twoTrees, QuotaProfiles: someProfiles(treeProfile(t, "a", "a", "tree1", pool("nodePoolA")))}
	for raw, want := range map[string]string{
		`{"metadata":{"labels":{"quota.scheduling.koordinator.sh/name":"tree1-child"}},"spec":{"affinity":{"podAffinity":{},"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[]}}}}`: `[{"op":"add","path":"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",` +
			`"value":{"nodeSelectorTerms":[{"matchExpressions":[` + inPoolA + `]}]}}]`,
		treeCase{label: "tree1-child", terms: `[{"matchExpressions":[` + inZone + `]}]`}.pod(): `[{"op":"add","path":"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/-","value":` + inPoolA + `}]`,
	} {
		d, err := document.Parse([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := multiQuotaTree(ask).Run(t.Context(), &admit.Request{Object: d, Operation: "CREATE"}, admit.AsPod(d)); err != nil || string(d.PatchJSON()) != want {
			t.Errorf("%s, %v\nwant %s", d.PatchJSON(), err, want)
		}
	}
}
