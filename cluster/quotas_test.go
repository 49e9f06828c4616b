package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/quota"
)

var quotaKinds = []Kind{PodRequests, ElasticQuotas, QuotaProfiles}

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
	c, err := Files(write(t, "", map[string]string{"a.yaml": someQuotas}), Options{Kinds: quotaKinds})
	if err != nil {
		t.Fatal(err)
	}
	checkQuotas(t, c.Now())
	pods, _ := all[*quota.Pod](c.Now(), PodRequests)
	for key, p := range pods {
		if key != "default/p" || p.Namespace != "default" {
			t.Errorf("%s: %+v", key, p)
		}
	}
}

// checkQuotas checks for what someQuotas says.
func checkQuotas(t *testing.T, s *Snapshot) {
	t.Helper()
	tree, err := s.QuotaTree()
	if err != nil || tree.Len() != 2 {
		t.Fatalf("%v %v", tree, err)
	}
	path := tree.Path("team")
	if len(path) != 2 || path[0].Namespace != "default" || path[1].Namespace != "shop" || !path[1].IsParent || path[1].Max.Cpu().Value() != 40 {
		t.Errorf("%v", path)
	}
	if b := tree.Bind(quota.Holder{Namespace: "team-a"}, false); b.Name != "team" {
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
	servers(t, func(t *testing.T, f *fakeAPI) {
		found, problems := readManifests("f.yaml", []byte(someQuotas))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, m := range found {
			for _, k := range quotaKinds {
				if i, err := rows[k].decode(m.raw); err == nil && rows[k].kind.Kind == m.Kind {
					place(i, true)
					f.apply(k, i.key(), string(m.raw))
				}
			}
		}
		c := f.follow(t, Options{Kinds: quotaKinds})
		eventually(t, "ready", func() bool { return c.Ready() == nil })
		checkQuotas(t, c.Now())
		f.apply(ElasticQuotas, "default/team", "")
		eventually(t, "a quota is gone", func() bool { tree, _ := c.Now().QuotaTree(); return tree.Len() == 1 })
	})
}

// TestQuotaProblems: what is wrong with the tree is shown.
func TestQuotaProblems(t *testing.T) {
	again := strings.ReplaceAll(someQuotas, "namespace: shop", "namespace: shop2")
	c, err := Files(write(t, "", map[string]string{"a.yaml": someQuotas, "b.yaml": strings.Split(again, "---")[0]}), Options{Kinds: quotaKinds})
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0].Error(), "elasticquotas: ") || !strings.Contains(p[0].Error(), "shop2") {
		t.Error(p)
	}
}

// TestQuotasNotReady: nothing is guessed.
func TestQuotasNotReady(t *testing.T) {
	c := newCluster(Options{Kinds: quotaKinds}, nil)
	if tree, err := c.Now().QuotaTree(); tree != nil || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("%v %v", tree, err)
	}
	if _, err := c.Now().QuotaProfiles(); !errors.Is(err, admit.ErrNotReady) {
		t.Error(err)
	}
	broken := func(*Snapshot) (any, []error) { panic("a strange quota") }
	c = newCluster(Options{Kinds: quotaKinds, Compile: map[Kind]Compiler{ElasticQuotas: broken}}, nil)
	_ = (&store{c, ElasticQuotas}).Replace(nil, "1")
	if tree, err := c.Now().QuotaTree(); tree != nil || err == nil {
		t.Errorf("an empty tree instead of none: %v %v", tree, err)
	}
}

// TestQuotasWithoutCRD: without the CRD there are no quotas.
func TestQuotasWithoutCRD(t *testing.T) {
	f := newFakeAPI(t)
	f.set(func() { f.missing["elasticquotas"], f.missing["elasticquotaprofiles"] = true, true })
	c := f.follow(t, Options{Kinds: quotaKinds})
	eventually(t, "ready", func() bool { return c.Ready() == nil })
	if tree, err := c.Now().QuotaTree(); err != nil || tree.Len() != 0 {
		t.Errorf("%v %v", tree, err)
	}
}

// TestBusyQuotas: what is written on quotas many times a second changes nothing that is kept, and costs no compiling.
func TestBusyQuotas(t *testing.T) {
	compiled := 0
	count := func(s *Snapshot) (any, []error) {
		compiled++
		return compileQuotas(s)
	}
	c := newCluster(Options{Kinds: quotaKinds, Compile: map[Kind]Compiler{ElasticQuotas: count}}, nil)
	to := &store{c, ElasticQuotas}
	send := func(annotations, rest string) {
		event{ElasticQuotas, "org/top", `{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","annotations":{` + annotations +
			`"quota.scheduling.koordinator.sh/guaranteed":"{\"cpu\":\"1.5\"}","quota.scheduling.koordinator.sh/namespaces":"[1]"}},
			"spec":{"max":{"cpu":"1.5","memory":"123456789012345678901234567890","x":4},"min":{"cpu":"0.1"}}` + rest + `}`}.send(t, c)
	}
	_ = to.Replace(nil, "1")
	send("", "")
	before, tree := c.Now(), compiled
	if tree != 2 {
		t.Fatalf("compiled %d times", tree)
	}
	for _, annotation := range []string{"usher.dev/reservations", "quota.scheduling.koordinator.sh/child-request",
		"quota.scheduling.koordinator.sh/runtime", "quota.scheduling.koordinator.sh/request"} {
		send(`"`+annotation+`":"{\"cpu\":\"2\"}",`, `,"status":{"used":{"cpu":"1"}}`)
	}
	if c.Now() != before || compiled != tree {
		t.Errorf("another snapshot: %v, compiled %d times", c.Now() != before, compiled-tree)
	}
	again := event{ElasticQuotas, "org/top", `{"spec":{"max":{"cpu":1}}}`}
	again.send(t, c)
	_ = to.Replace([]any{again.item(t)}, "2")
	if compiled != tree+1 {
		t.Errorf("compiled %d times, want once for the change and not for the list of the same", compiled-tree)
	}
	_ = to.Replace(nil, "3")
	if compiled != tree+2 {
		t.Errorf("compiled %d times: a list with less is a change", compiled-tree)
	}
	to.c.change(func(s *Snapshot) bool { return s.remove(ElasticQuotas, "org/never") }, ElasticQuotas)
	if compiled != tree+2 {
		t.Error("compiled for a quota that was not there")
	}
}

// TestBusyFiles: a new reading compiles only the kinds that it changes.
func TestBusyFiles(t *testing.T) {
	compiled := 0
	count := func(s *Snapshot) (any, []error) { compiled++; return profileNames(s) }
	f := &files{ignored: map[string]string{}, dir: write(t, "", map[string]string{"a.yaml": someQuotas})}
	c := newCluster(Options{Kinds: append(quotaKinds, Profiles), Compile: map[Kind]Compiler{Profiles: count}}, f)
	if err := f.open(c); err != nil {
		t.Fatal(err)
	}
	write(t, f.dir, map[string]string{"b.yaml": strings.ReplaceAll(strings.ReplaceAll(someQuotas, "name: ", "name: other-"), "[\"team-a\"]", "[]")})
	again(f, c)
	if p := c.Problems(); len(p) > 0 {
		t.Error(p)
	}
	if tree, err := c.Now().QuotaTree(); err != nil || tree.Len() != 4 || compiled != 1 {
		t.Errorf("%v %v, profiles compiled %d times", tree, err, compiled)
	}
}

func TestQuotaRules(t *testing.T) {
	rules := Options{Kinds: []Kind{ElasticQuotas, QuotaProfiles}, WriteQuotas: true}.Rules()
	watch := []string{"get", "list", "watch"}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"scheduling.sigs.k8s.io"}, Resources: []string{"elasticquotas"}, Verbs: watch},
		{APIGroups: []string{"quota.koordinator.sh"}, Resources: []string{"elasticquotaprofiles"}, Verbs: watch},
		{APIGroups: []string{"scheduling.sigs.k8s.io"}, Resources: []string{"elasticquotas"}, Verbs: []string{"patch"}},
	}
	if !reflect.DeepEqual(rules, want) {
		t.Errorf("%v", rules)
	}
	for _, rule := range (Options{Kinds: quotaKinds}).Rules() {
		if slices.Contains(rule.Verbs, "patch") {
			t.Errorf("a right that nobody needs: %v", rule)
		}
	}
}

// manyPods gives 100,000 pods that ask for as much cpu as is said.
func manyPods(b *testing.B, cpu string) []any {
	items := make([]any, 100_000)
	for i := range items {
		items[i] = event{PodRequests, fmt.Sprintf("ns/pod-%d", i), fmt.Sprintf(
			`{"metadata":{"uid":"%d"},"spec":{"nodeName":"n","containers":[{"resources":{"requests":{"cpu":%q,"memory":"1Gi"}}}]}}`, i, cpu)}.item(b)
	}
	return items
}

// BenchmarkPodRequestsEvent is an event of one of 100,000 pods: one that changes what is kept, and one that does not.
func BenchmarkPodRequestsEvent(b *testing.B) {
	items, changed := manyPods(b, "1"), manyPods(b, "2")
	for name, next := range map[string][]any{"changed": changed, "same": items} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(Options{Kinds: quotaKinds, Follow: follows(PodRequests, &follower{})}, nil)
			to := &store{c, PodRequests}
			_ = to.Replace(items, "1")
			b.ReportAllocs()
			now, n := next, 0
			for b.Loop() {
				if n++; n == len(now) {
					n = 0
					if now = next; &now[0] == &next[0] {
						now = items
					}
				}
				_ = to.Update(now[n])
			}
		})
	}
}

// BenchmarkPodRequestsList is a list of 100,000 pods that are all known.
func BenchmarkPodRequestsList(b *testing.B) {
	items, again := manyPods(b, "1"), manyPods(b, "1")
	c := newCluster(Options{Kinds: quotaKinds}, nil)
	_ = (&store{c, PodRequests}).Replace(items, "1")
	for b.Loop() {
		_ = (&store{c, PodRequests}).Replace(again, "2")
	}
}

// BenchmarkPodRequestsMemory tells the bytes that one kept pod takes.
func BenchmarkPodRequestsMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := newCluster(Options{Kinds: quotaKinds}, nil)
		_ = (&store{c, PodRequests}).Replace(manyPods(b, "1"), "1")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/100_000, "B/pod")
		runtime.KeepAlive(c)
	}
}

// BenchmarkDecodePod is the decoding of a pod of which only requests are kept.
func BenchmarkDecodePod(b *testing.B) {
	raw := []byte(withVersion(PodRequests, "ns/p", `{"metadata":{"labels":{"a":"b","c":"d"},"annotations":{"e":"f"}},"spec":{"nodeName":"n",
		"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"B"}],
		"resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, 1))
	b.ReportAllocs()
	for b.Loop() {
		if i, err := rows[PodRequests].decode(raw); err != nil || i.err != nil {
			b.Fatal(err)
		}
	}
}
