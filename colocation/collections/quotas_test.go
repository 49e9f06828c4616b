package collections

import (
	"cmp"
	"errors"
	"reflect"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/clustertest"
)

var quotaNeeds = []string{"podrequests", "elasticquotas", "elasticquotaprofiles"}

const someQuotas = `
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: org, namespace: shop, labels: {quota.scheduling.koordinator.sh/is-parent: "true"}}
spec: {max: {cpu: 40}, min: {cpu: 10}}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team, labels: {quota.scheduling.koordinator.sh/parent: org}, annotations: {quota.scheduling.koordinator.sh/namespaces: '["team-a"]'}}
spec: {max: {cpu: "20"}}
---
apiVersion: quota.koordinator.sh/v1alpha1
kind: ElasticQuotaProfile
metadata: {name: b, labels: {quota.scheduling.koordinator.sh/tree-id: t}, annotations: {a: b}}
spec: {quotaName: root, nodeSelector: {matchLabels: {pool: x}}}
---
apiVersion: quota.koordinator.sh/v1alpha1
kind: ElasticQuotaProfile
metadata: {name: z, namespace: a}
spec: {quotaName: root, nodeSelector: {}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{resources: {requests: {cpu: 1}}}]}
`

func TestQuotasFromFiles(t *testing.T) {
	s, c, err := inFiles(t, someQuotas, quotaNeeds...)
	if err != nil {
		t.Fatal(err)
	}
	checkQuotas(t, s)
	if p, known, err := PodRequests.Find(c.Now(), "default/p"); !known || err != nil || p.Namespace != "default" {
		t.Errorf("%+v %v", p, err)
	}
}

// checkQuotas checks the content of someQuotas.
func checkQuotas(t *testing.T, s Questions) {
	t.Helper()
	tree, err := s.QuotaTree()
	if err != nil || tree.Len() != 2 {
		t.Fatalf("%v %v", tree, err)
	}
	path := tree.Path("team")
	if len(path) != 2 || path[0].Namespace != "default" || path[1].Namespace != "shop" || !path[1].IsParent || path[1].Max.Cpu().Value() != 40 {
		t.Errorf("%v", path)
	}
	if b := tree.Bind(quota.BindingKey{Namespace: "team-a"}, false); b.Name != "team" {
		t.Errorf("%+v", b)
	}
	profiles, err := s.QuotaProfiles()
	if err != nil || len(profiles) != 2 || profiles[0].Namespace+"/"+profiles[0].Name != "a/z" {
		t.Fatalf("%v %v", profiles, err)
	}
	if p := profiles[1]; p.Namespace != "default" || p.Labels[api.LabelQuotaTreeID] != "t" || p.Annotations != nil || p.Spec.NodeSelector.MatchLabels["pool"] != "x" {
		t.Errorf("%+v", p)
	}
}

func TestQuotasFromAPI(t *testing.T) {
	f := clustertest.New(t)
	kinds := map[string]clustertest.Kind{"Pod": podRequests, "ElasticQuota": elasticQuotas, "ElasticQuotaProfile": kind(ElasticQuotaProfiles)}
	for _, text := range strings.Split(someQuotas, "---") {
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = yaml.Unmarshal(raw, &o)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Apply(kinds[o.Kind], cmp.Or(o.Metadata.Namespace, "default")+"/"+o.Metadata.Name, string(raw))
	}
	s, c := watching(t, f, keeping(quotaNeeds...))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	checkQuotas(t, s)
	f.Apply(elasticQuotas, "default/team", "")
	clustertest.Eventually(t, "a quota is gone", func() bool { tree, _ := s.QuotaTree(); return tree.Len() == 1 })
}

// TestQuotaProblems: the flaws of the tree are shown.
func TestQuotaProblems(t *testing.T) {
	again := strings.ReplaceAll(someQuotas, "namespace: shop", "namespace: shop2")
	_, c, err := inFiles(t, someQuotas+"---"+strings.Split(again, "---")[0], quotaNeeds...)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0].Error(), "elasticquotas: ") || !strings.Contains(p[0].Error(), "shop2") {
		t.Error(p)
	}
}

// TestQuotasNotReady: queries fail before the first list.
func TestQuotasNotReady(t *testing.T) {
	s := notListed(t, quotaNeeds...)
	if tree, err := s.QuotaTree(); tree != nil || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v %v", tree, err)
	}
	if _, err := s.QuotaProfiles(); !errors.Is(err, admit.ErrNotReady) {
		t.Error(err)
	}
	if _, err := s.QuotasWithPods(); !errors.Is(err, admit.ErrNotReady) {
		t.Error(err)
	}
	broken := *ElasticQuotas
	broken.Compile = func(cluster.Objects[*quota.Quota]) (*quota.Tree, []error, error) { panic("a strange quota") }
	c, err := cluster.Files("", cluster.Options{Catalogue: []cluster.Declared{&broken}, Needs: []string{broken.Name}})
	if err != nil {
		t.Fatal(err)
	}
	if tree, err := TreeOf(c.Now()); tree != nil || err == nil {
		t.Errorf("an empty tree instead of none: %v %v", tree, err)
	}
}

// TestQuotasWithoutCRD: without the CRD there are no quotas.
func TestQuotasWithoutCRD(t *testing.T) {
	f := clustertest.New(t)
	f.Set(func() { f.Missing["elasticquotas"], f.Missing["elasticquotaprofiles"] = true, true })
	s, c := watching(t, f, keeping(quotaNeeds...))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	if tree, err := s.QuotaTree(); err != nil || tree.Len() != 0 {
		t.Errorf("%v %v", tree, err)
	}
}

// toldQuotas records what a ledger receives of quotas, as version=cpu and annotations.
type toldQuotas struct{ lines chan string }

func (f toldQuotas) text(s ledger.Seen) string {
	return s.Key + "@" + s.Version + "=" + s.Object.(*quota.Quota).Max.Cpu().String() + s.Record + s.ChildRequest
}

func (f toldQuotas) Replace(all []ledger.Seen, version string) {
	for _, s := range all {
		f.lines <- "replace " + f.text(s) + " " + version
	}
}
func (f toldQuotas) Put(s ledger.Seen)    { f.lines <- "put " + f.text(s) }
func (f toldQuotas) Remove(s ledger.Seen) { f.lines <- "remove " + f.text(s) }
func (f toldQuotas) Reached(string)       {}

// TestFollowQuotas: a ledger receives fields that are not kept. Fields that other writers change many times a second
// change nothing that is kept and cost no new tree.
func TestFollowQuotas(t *testing.T) {
	f, told := clustertest.New(t), toldQuotas{make(chan string, 100)}
	f.Apply(elasticQuotas, "org/top", aQuota) // 101
	o := keeping("elasticquotas")
	o.Follow = func(*cluster.Cluster) map[string]cluster.Follower {
		return map[string]cluster.Follower{"elasticquotas": follower{told}}
	}
	s, c := watching(t, f, o)
	expect := func(want string) {
		t.Helper()
		if got := <-told.lines; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	expect("replace org/top@101=4 101")
	before, err := s.QuotaTree()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recordsOf(c).Write(t.Context(), top, "101", "r"); err != nil {
		t.Fatal(err)
	}
	expect("put org/top@102=4r")
	if err := recordsOf(c).WriteChildRequest(t.Context(), top, "c"); err != nil {
		t.Fatal(err)
	}
	expect("put org/top@103=4rc")
	f.Apply(elasticQuotas, "org/top", strings.Replace(strings.Replace(aQuota, `"a":"b"`, `"quota.scheduling.koordinator.sh/runtime":"{\"cpu\":\"2\"}",
		"quota.scheduling.koordinator.sh/request":"{\"cpu\":\"2\"}"`, 1), `"used":{"cpu":"1"}`, `"used":{"cpu":"2"}`, 1))
	expect("put org/top@104=4")
	if after, err := s.QuotaTree(); err != nil || after != before {
		t.Error("another tree")
	}
	f.Apply(elasticQuotas, "org/top", `{"metadata":{"annotations":{"usher.dev/reservations":"s"}},"spec":{"max":1}}`)
	expect("put org/top@105=4s")
	f.Apply(elasticQuotas, "org/top", "")
	expect("remove org/top@106=4s")
	if after, err := s.QuotaTree(); err != nil || after == before || after.Len() != 0 {
		t.Errorf("the same tree: %v", err)
	}
}

func TestQuotaRules(t *testing.T) {
	rules := append(keeping("elasticquotas", "elasticquotaprofiles").Rules(), WriteRule())
	watch := []string{"get", "list", "watch"}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"scheduling.sigs.k8s.io"}, Resources: []string{"elasticquotas"}, Verbs: watch},
		{APIGroups: []string{"quota.koordinator.sh"}, Resources: []string{"elasticquotaprofiles"}, Verbs: watch},
		{APIGroups: []string{"scheduling.sigs.k8s.io"}, Resources: []string{"elasticquotas", "elasticquotas/status"}, Verbs: []string{"patch"}},
	}
	if !reflect.DeepEqual(rules, want) {
		t.Errorf("%v", rules)
	}
}

// TestPodsOf: pods that belong to a quota, by label or namespace, except those that have ended.
func TestPodsOf(t *testing.T) {
	pod := func(name, rest string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", " + rest + "\n"
	}
	s, _, err := inFiles(t, someQuotas+pod("b", "namespace: x, labels: {quota.scheduling.koordinator.sh/name: team}}")+pod("a", "namespace: team-a}")+
		pod("ended", "namespace: team-a}\nstatus: {phase: Failed}"), quotaNeeds...)
	if err != nil {
		t.Fatal(err)
	}
	for labelOnly, want := range map[bool]string{false: "team-a/a x/b", true: "x/b"} {
		if found, total := s.PodsOf("team", labelOnly); strings.Join(found, " ") != want || total != len(found) {
			t.Errorf("label only %v: %v", labelOnly, found)
		}
	}
}
