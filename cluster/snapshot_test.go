package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
)

func TestRules(t *testing.T) {
	verbs := []string{"get", "list", "watch"}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "pods", "nodes"}, Verbs: verbs},
		{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}, Verbs: verbs},
		{APIGroups: []string{"config.koordinator.sh"}, Resources: []string{"clustercolocationprofiles"}, Verbs: verbs},
		{APIGroups: []string{"scheduling.koordinator.sh"}, Resources: []string{"reservations"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"pod-enhanced-validator-config"}, Verbs: verbs},
	}
	c := newCluster(Options{Kinds: allKinds}, nil)
	if got := c.options.Rules(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if got := (Options{Kinds: []Kind{Pods}}).Rules(); len(got) != 1 || len(got[0].Resources) != 1 {
		t.Errorf("pods alone: %v", got)
	}
	if got := (Options{Kinds: []Kind{EnhancedRules}}).Rules(); len(got) != 1 || len(got[0].ResourceNames) != 1 {
		t.Errorf("the ConfigMap alone, with its default name: %v", got)
	}
}

func TestTable(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	table, want := table{}, map[string]any{}
	for step := range 3000 {
		key := fmt.Sprint("key-", random.IntN(900))
		before, beforeWant := table, maps.Clone(want)
		if random.IntN(3) == 0 {
			table = table.without(key)
			delete(want, key)
		} else {
			table = table.with(key, step)
			want[key] = step
		}
		if step%500 == 0 {
			table = tableOf(want)
		}
		if step%100 == 0 && (!maps.Equal(maps.Collect(before.all()), beforeWant) || before.size != len(beforeWant)) {
			t.Fatal("a change changed the old table")
		}
	}
	if !maps.Equal(maps.Collect(table.all()), want) || table.size != len(want) {
		t.Error("the table differs from a map")
	}
	for key, object := range want {
		if got, ok := table.get(key); !ok || got != object {
			t.Errorf("%s: %v %v", key, got, ok)
		}
	}
	if _, ok := table.get("none"); ok {
		t.Error("a key that is not there was found")
	}
}

// event is a change of one object.
type event struct {
	kind   Kind
	key    string
	object string // JSON without metadata.name; empty: gone
}

func (e event) item(t testing.TB) *item {
	t.Helper()
	object := e.object
	if object == "" {
		object = "{}"
	}
	i, err := rows[e.kind].decode([]byte(withVersion(e.kind, e.key, object, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (e event) send(t testing.TB, c *Cluster) {
	to := &store{c, e.kind}
	if e.object == "" {
		_ = to.Delete(e.item(t))
		return
	}
	_ = to.Add(e.item(t))
}

// TestAnyOrder: whatever the order in which the changes of different objects come, and however many of them a list brings, the
// snapshot is the same.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		histories := randomHistories(random)
		var first *Snapshot
		for range 4 {
			c := newCluster(Options{Kinds: allKinds, Compile: map[Kind]Compiler{Profiles: profileNames}}, nil)
			for _, k := range allKinds {
				_ = (&store{c, k}).Replace(nil, "")
			}
			deliver(t, c, random, histories)
			if first == nil {
				first = c.Now()
			} else if !reflect.DeepEqual(visible(first), visible(c.Now())) {
				t.Fatalf("seed %d: %v\nand %v", seed, visible(first), visible(c.Now()))
			}
		}
	}
}

// visible is all of a snapshot that does not depend on the tables' insides.
func visible(s *Snapshot) (all []any) {
	for k := range kindCount {
		all = append(all, maps.Collect(s.kinds[k].objects.all()), s.kinds[k].objects.size, s.kinds[k].compiled, s.kinds[k].synced)
	}
	for _, problem := range s.problems() {
		all = append(all, problem.Error())
	}
	return all
}

func profileNames(s *Snapshot) (any, []error) {
	profiles, err := s.Profiles()
	names := make([]string, 0, len(profiles))
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names, []error{err}[:0]
}

// randomHistories gives for each of some objects what happens to it, in order.
func randomHistories(random *rand.Rand) (histories [][]event) {
	for n := range 12 {
		k := []Kind{Namespaces, Profiles, Pods}[n%3]
		key := fmt.Sprintf("o%d", n)
		if rows[k].namespaced {
			key = "ns/" + key
		}
		var history []event
		for range 1 + random.IntN(4) {
			object := fmt.Sprintf(`{"metadata":{"labels":{"v":"%d"}}}`, random.IntN(100))
			switch random.IntN(4) {
			case 0:
				object = ""
			case 1:
				if k == Profiles {
					object = `{"spec":{"labels":1}}`
				}
			}
			history = append(history, event{k, key, object})
		}
		histories = append(histories, history)
	}
	return histories
}

// deliver sends all events, those of one object in their order, and now and then a list of what is there anyway.
func deliver(t *testing.T, c *Cluster, random *rand.Rand, histories [][]event) {
	next := make([]int, len(histories))
	for left := true; left; {
		left = false
		for _, n := range random.Perm(len(histories)) {
			if next[n] < len(histories[n]) {
				histories[n][next[n]].send(t, c)
				next[n]++
				left = true
			}
		}
		if random.IntN(3) == 0 {
			relist(t, c, histories, next)
		}
	}
}

// relist replaces all pods by the pods there are.
func relist(t *testing.T, c *Cluster, histories [][]event, next []int) {
	var items []any
	for n, history := range histories {
		if next[n] == 0 || history[0].kind != Pods || history[next[n]-1].object == "" {
			continue
		}
		items = append(items, history[next[n]-1].item(t))
	}
	_ = (&store{c, Pods}).Replace(items, "")
}

func TestEnhancedRules(t *testing.T) {
	const key = "koordinator-system/pod-enhanced-validator-config"
	c := newCluster(Options{Kinds: allKinds}, nil)
	_ = (&store{c, EnhancedRules}).Replace(nil, "")
	steps := []struct {
		name, data string
		want       string // the names of the rules
		problem    string
	}{
		{"not there", ``, "", ""},
		{"on", `{"enable":" TRUE\n","rules":"[{\"name\":\"a\",\"requiredLabels\":[\"l\"],\"namespaceWhitelist\":[\"\",\"n\"]}]"}`, "a(n)", ""},
		{"broken, and off", `{"enable":"false","rules":"[{"}`, "a(n)", "the rules in force stay"},
		{"empty text", `{"enable":"true","rules":""}`, "a(n)", "the rules in force stay"},
		{"a key twice", `{"enable":"true","rules":"[{\"name\":\"a\",\"name\":\"b\"}]"}`, "a(n)", "the rules in force stay"},
		{"two", `{"enable":"true","rules":"[{\"name\":\"b\",\"requiredLabels\":[\"l\"]},{\"name\":\"b\",\"requiredLabels\":[\"l\"]}]"}`, "b() b()", ""},
		{"off", `{"enable":"no","rules":"[{\"name\":\"b\",\"requiredLabels\":[\"l\"]}]"}`, "", ""},
		{"asks for nothing", `{"enable":"true","rules":"[{\"name\":\"c\"}]"}`, "c()", "rule 1 (c) requires no labels"},
		{"no rules", `{"enable":"true"}`, "", ""},
		{"no enable", `{"rules":"[{\"name\":\"d\",\"requiredLabels\":[\"l\"]}]"}`, "", ""},
		{"on again", `{"enable":"true","rules":"[{\"name\":\"e\",\"requiredLabels\":[\"l\"]}]"}`, "e()", ""},
		{"gone", ``, "", ""},
	}
	for _, step := range steps {
		object := ""
		if step.data != "" {
			object = `{"data":` + step.data + `}`
		}
		event{EnhancedRules, key, object}.send(t, c)
		rules, err := c.Now().LabelRules()
		var got []string
		for _, r := range rules {
			got = append(got, r.Name+"("+strings.Join(r.NamespaceWhitelist, ",")+")")
		}
		problems := fmt.Sprint(c.Problems())
		if err != nil || strings.Join(got, " ") != step.want || !strings.Contains(problems, step.problem) || step.problem == "" && problems != "[]" {
			t.Errorf("%s: %v, problems %v, err %v", step.name, got, problems, err)
		}
	}
}

// TestCompile: what is compiled belongs to the snapshot; what cannot be compiled leaves the last one.
func TestCompile(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	calls := 0
	compile := func(s *Snapshot) (any, []error) {
		calls++
		profiles, err := s.Profiles()
		if err != nil {
			return nil, []error{err}
		}
		switch profiles[len(profiles)-1].Name {
		case "panic":
			panic("strange profile")
		case "refuse":
			return nil, []error{errors.New("refused")}
		}
		return len(profiles), nil
	}
	c := newCluster(Options{Kinds: []Kind{Profiles, Pods}, Compile: map[Kind]Compiler{Profiles: compile}, Log: log}, nil)
	if _, err := Compiled[int](c.Now(), Profiles); err == nil {
		t.Error("compiled before the list")
	}
	event{Profiles, "early", "{}"}.send(t, c)
	_ = (&store{c, Profiles}).Replace([]any{event{Profiles, "a", "{}"}.item(t)}, "")
	event{Pods, "n/p", "{}"}.send(t, c)
	if n, err := Compiled[int](c.Now(), Profiles); n != 1 || err != nil || calls != 1 {
		t.Errorf("compiled %d, %v, in %d calls", n, err, calls)
	}
	before := c.Now()
	event{Profiles, "b", "{}"}.send(t, c)
	for name, problem := range map[string]string{"panic": "panic: strange profile", "refuse": "refused"} {
		event{Profiles, name, "{}"}.send(t, c)
		n, err := Compiled[int](c.Now(), Profiles)
		if p := c.Problems(); n != 2 || err != nil || len(p) != 1 || !strings.Contains(p[0].Error(), problem) {
			t.Errorf("%s: %d %v, problems %v", name, n, err, p)
		}
		if !strings.Contains(hook.LastEntry().Message, problem) {
			t.Errorf("%s: not in the log", name)
		}
		event{Pods, "n/" + name, "{}"}.send(t, c) // and not a second time
		event{Profiles, name, ""}.send(t, c)
	}
	if n, _ := Compiled[int](c.Now(), Profiles); n != 2 || len(c.Problems()) > 0 {
		t.Errorf("compiled %d, problems %v", n, c.Problems())
	}
	if n, _ := Compiled[int](before, Profiles); n != 1 {
		t.Error("an old snapshot changed")
	}
	if logged := len(hook.AllEntries()); logged != 3 { // synced, and two problems
		t.Errorf("%d log entries", logged)
	}
}

// TestReadersDuringChanges is for the race detector. Every snapshot is whole: what was compiled fits the profiles.
func TestReadersDuringChanges(t *testing.T) {
	c := newCluster(Options{Kinds: allKinds, Compile: map[Kind]Compiler{Profiles: profileNames}}, nil)
	for _, k := range allKinds {
		_ = (&store{c, k}).Replace(nil, "")
	}
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				s := c.Now()
				profiles, _ := s.Profiles()
				names, _ := Compiled[[]string](s, Profiles)
				if len(names) != len(profiles) {
					t.Errorf("%d names of %d profiles", len(names), len(profiles))
					return
				}
				_, _, _, _ = s.Pod("ns", "p1")
			}
		})
	}
	for w := range 3 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 9))
			for range 300 {
				object := []string{"", "{}"}[random.IntN(2)]
				event{Profiles, fmt.Sprintf("p%d", random.IntN(5)), object}.send(t, c)
				event{Pods, fmt.Sprintf("ns/p%d", random.IntN(5)), object}.send(t, c)
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// TestNothingElseIsKept: the memory of 100,000 objects must not hold what nobody reads.
func TestNothingElseIsKept(t *testing.T) {
	for k := range kindCount {
		object := `{"metadata":{"uid":"u","generateName":"g","finalizers":["f"],"ownerReferences":[{"name":"o"}]},"spec":{"template":{"spec":{}}}}`
		i := event{k, "name", object}.item(t)
		if i.ManagedFields != nil || i.OwnerReferences != nil {
			t.Errorf("%s: %+v", k, i)
		}
		kept := fmt.Sprintf("%+v", i.kept)
		if meta, ok := i.kept.(metav1.Object); ok && (meta.GetManagedFields() != nil || meta.GetUID() != "" || meta.GetFinalizers() != nil) {
			t.Errorf("%s: %s", k, kept)
		}
		if r, ok := i.kept.(*api.Reservation); ok && r.Spec.Template != nil {
			t.Errorf("%s: %s", k, kept)
		}
	}
}

func BenchmarkPodEvent(b *testing.B) {
	c := newCluster(Options{Kinds: allKinds}, nil)
	items, changed := make([]any, 100_000), make([]any, 100_000)
	for i := range items {
		items[i] = event{Pods, fmt.Sprintf("ns/pod-%d", i), `{"metadata":{"labels":{"a":"b"}}}`}.item(b)
		changed[i] = event{Pods, fmt.Sprintf("ns/pod-%d", i), `{"metadata":{"labels":{"a":"c"}}}`}.item(b)
	}
	to := &store{c, Pods}
	_ = to.Replace(items, "")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n == len(items) {
			n, items, changed = 0, changed, items
		}
		_ = to.Update(changed[n])
	}
}

func BenchmarkPodQuestion(b *testing.B) {
	c := newCluster(Options{Kinds: allKinds}, nil)
	items := make([]any, 100_000)
	for i := range items {
		items[i] = event{Pods, fmt.Sprintf("ns/pod-%d", i), `{}`}.item(b)
	}
	_ = (&store{c, Pods}).Replace(items, "")
	b.ReportAllocs()
	for b.Loop() {
		_, _, _, _ = c.Now().Pod("ns", "pod-500")
	}
}

// TestNamedNamespace: a watched namespace that only somebody's text names may not exist, and nothing waits for it.
func TestNamedNamespace(t *testing.T) {
	s := &Snapshot{api: true}
	s.kinds[Namespaces] = kindState{wanted: true, synced: true}
	if _, known, err := s.NamedNamespace("absent"); known || err != nil {
		t.Errorf("%v, %v", known, err)
	}
	if _, _, err := s.Namespace("absent"); !errors.Is(err, admit.ErrNotReady) {
		t.Error(err)
	}
}
