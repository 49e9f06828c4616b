package cluster

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"
	rbacv1 "k8s.io/api/rbac/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/clustertest"
	seeds "usher.dev/usher/test/seed"
)

func TestRules(t *testing.T) {
	verbs := []string{"get", "list", "watch"}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "pods", "nodes"}, Verbs: verbs},
		{APIGroups: []string{"config.koordinator.sh"}, Resources: []string{"clustercolocationprofiles"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"c"}, Verbs: verbs},
	}
	if got := keeping(append(allKinds, "podnodes")...).Rules(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if got := keeping("pods").Rules(); len(got) != 1 || len(got[0].Resources) != 1 {
		t.Errorf("pods alone: %v", got)
	}
	if got := keeping("pods", "podnodes").Rules(); len(got) != 1 || len(got[0].Resources) != 1 {
		t.Errorf("both are pods: %v", got)
	}
	if got := keeping("rules").Rules(); len(got) != 1 || len(got[0].ResourceNames) != 1 {
		t.Errorf("the ConfigMap alone: %v", got)
	}
}

// event is a change of one object.
type event struct {
	kind   string // the name of a collection
	key    string
	object string // JSON without metadata.name; empty: gone
}

func (e event) item(t testing.TB) *item {
	t.Helper()
	object := e.object
	if object == "" {
		object = "{}"
	}
	known, err := newCatalogue(catalogueOfTests, nil)
	if err != nil {
		t.Fatal(err)
	}
	i, err := known.rows[known.index[e.kind]].decode([]byte(clustertest.WithVersion(kind(e.kind), e.key, object, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (e event) send(t testing.TB, c *Cluster) {
	to := c.to(e.kind)
	if e.object == "" {
		_ = to.Delete(e.item(t))
		return
	}
	_ = to.Add(e.item(t))
}

// TestAnyOrder: the snapshot does not depend on the order in which changes of different objects arrive, nor on how many
// of them arrive in a list.
func TestAnyOrder(t *testing.T) {
	random := seeds.Random(t)
	for n := range 60 {
		histories := randomHistories(random)
		var first *state
		for range 4 {
			c := made(keeping(allKinds...), nil)
			for _, k := range allKinds {
				_ = c.to(k).Replace(nil, "")
			}
			deliver(t, c, random, histories)
			if first == nil {
				first = c.latest()
			} else if !reflect.DeepEqual(visible(first), visible(c.latest())) {
				t.Fatalf("case %d: %v\nand %v", n, visible(first), visible(c.latest()))
			}
		}
	}
}

// visible returns everything about a snapshot except the layout of its tables.
func visible(s *state) (all []any) {
	for _, of := range s.collected {
		all = append(all, maps.Collect(of.objects.All()), of.objects.Len(), of.compiled, of.synced)
	}
	for _, problem := range s.problems() {
		all = append(all, problem.Error())
	}
	return all
}

// randomHistories returns, for each of some objects, its events in order.
func randomHistories(random *rand.Rand) (histories [][]event) {
	for n := range 12 {
		k := []string{"namespaces", "clustercolocationprofiles", "pods"}[n%3]
		key := fmt.Sprintf("o%d", n)
		if k == "pods" {
			key = "ns/" + key
		}
		var history []event
		for range 1 + random.IntN(4) {
			object := fmt.Sprintf(`{"metadata":{"labels":{"v":"%d"}}}`, random.IntN(100))
			switch random.IntN(4) {
			case 0:
				object = ""
			case 1:
				if k == "clustercolocationprofiles" {
					object = `{"spec":{"labels":1}}`
				}
			}
			history = append(history, event{k, key, object})
		}
		histories = append(histories, history)
	}
	return histories
}

// deliver delivers all events, in order for each object, and occasionally a list of the current objects.
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

// relist replaces all pods by the existing pods.
func relist(t *testing.T, c *Cluster, histories [][]event, next []int) {
	var items []any
	for n, history := range histories {
		if next[n] == 0 || history[0].kind != "pods" || history[next[n]-1].object == "" {
			continue
		}
		items = append(items, history[next[n]-1].item(t))
	}
	_ = c.to("pods").Replace(items, "")
}

// TestCompile: compiled values belong to their snapshot; if compiling fails, the last value stays.
func TestCompile(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	calls := 0
	profiles := profilesWith(func(all Objects[*thing]) (int, []error, error) {
		calls++
		switch list := all.Sorted(); list[len(list)-1].Name {
		case "panic":
			panic("strange profile")
		case "refuse":
			return 0, nil, errors.New("refused")
		}
		return all.Len(), nil, nil
	})
	c := made(Options{Catalogue: []Declared{profiles, Pods}, Needs: []string{profiles.Name, Pods.Name}, Log: log}, nil)
	if _, err := profiles.Get(c.Now()); err == nil {
		t.Error("compiled before the list")
	}
	event{"clustercolocationprofiles", "early", "{}"}.send(t, c)
	_ = c.to(profiles.Name).Replace([]any{event{"clustercolocationprofiles", "a", "{}"}.item(t)}, "")
	event{"pods", "n/p", "{}"}.send(t, c)
	if n, err := profiles.Get(c.Now()); n != 1 || err != nil || calls != 1 {
		t.Errorf("compiled %d, %v, in %d calls", n, err, calls)
	}
	before := c.Now()
	event{"clustercolocationprofiles", "b", "{}"}.send(t, c)
	for name, problem := range map[string]string{"panic": "panic: strange profile", "refuse": "refused"} {
		event{"clustercolocationprofiles", name, "{}"}.send(t, c)
		n, err := profiles.Get(c.Now())
		if p := c.Problems(); n != 2 || err != nil || len(p) != 1 || !strings.Contains(p[0].Error(), problem) {
			t.Errorf("%s: %d %v, problems %v", name, n, err, p)
		}
		if !strings.Contains(hook.LastEntry().Message, problem) {
			t.Errorf("%s: not in the log", name)
		}
		event{"pods", "n/" + name, "{}"}.send(t, c) // and not a second time
		event{"clustercolocationprofiles", name, ""}.send(t, c)
	}
	if n, _ := profiles.Get(c.Now()); n != 2 || len(c.Problems()) > 0 {
		t.Errorf("compiled %d, problems %v", n, c.Problems())
	}
	if n, _ := profiles.Get(before); n != 1 {
		t.Error("an old snapshot changed")
	}
	if logged := len(hook.AllEntries()); logged != 3 { // synced, and two problems
		t.Errorf("%d log entries", logged)
	}
}

// TestUpdate: a value that is updated with each change, some of which fail, is the value that would be compiled anew.
func TestUpdate(t *testing.T) {
	random, compiled, strange := seeds.Random(t), 0, false
	profiles := profilesWith(func(all Objects[*thing]) (map[string]string, []error, error) {
		compiled++
		names := map[string]string{}
		for _, p := range all.Each() {
			names[p.Name] = p.Spec.SchedulerName
		}
		return names, nil, nil
	})
	profiles.Update = func(before map[string]string, changed iter.Seq2[*thing, *thing]) (map[string]string, []error) {
		after := maps.Clone(before)
		for was, is := range changed {
			if strange {
				panic("strange profile")
			}
			if was != nil && before[was.Name] != was.Spec.SchedulerName || is != nil && was != nil && was.Name != is.Name {
				t.Fatalf("%+v became %+v", was, is)
			}
			if is != nil {
				after[is.Name] = is.Spec.SchedulerName
			} else {
				delete(after, was.Name)
			}
		}
		return after, []error{errors.New("updated")}
	}
	c := made(Options{Catalogue: []Declared{profiles}, Needs: []string{profiles.Name}}, nil)
	_ = c.to(profiles.Name).Replace(nil, "")
	next := func() event {
		object := []string{"", `{"spec":{"schedulerName":"a"}}`, `{"spec":{"schedulerName":"b"}}`}[random.IntN(3)]
		return event{profiles.Name, fmt.Sprintf("p%d", random.IntN(5)), object}
	}
	for n := range 500 {
		strange = random.IntN(5) == 0 && n < 499
		if next().send(t, c); random.IntN(10) == 0 {
			_ = c.to(profiles.Name).Replace([]any{event{profiles.Name, "p1", "{}"}.item(t), event{profiles.Name, fmt.Sprint("p", n), "{}"}.item(t)}, "")
		}
		all, _ := profiles.All(c.Now())
		want, _, _ := profiles.Compile(all)
		if got, _ := profiles.Get(c.Now()); !strings.Contains(fmt.Sprint(c.Problems()), "panic") && !maps.Equal(got, want) {
			t.Fatalf("updated %v, compiled %v", got, want)
		}
		compiled--
	}
	if len(c.Problems()) != 1 || compiled != 1 {
		t.Errorf("problems %v, compiled %d times", c.Problems(), compiled)
	}
}

// TestReadersDuringChanges is for the race detector. Every snapshot is consistent: the compiled value matches the
// profiles.
func TestReadersDuringChanges(t *testing.T) {
	c := made(keeping(allKinds...), nil)
	for _, k := range allKinds {
		_ = c.to(k).Replace(nil, "")
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
				names, _ := Profiles.Get(s)
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
				event{"clustercolocationprofiles", fmt.Sprintf("p%d", random.IntN(5)), object}.send(t, c)
				event{"pods", fmt.Sprintf("ns/p%d", random.IntN(5)), object}.send(t, c)
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// TestNothingElseIsKept: the memory of 100,000 objects must not include anything that is not read.
func TestNothingElseIsKept(t *testing.T) {
	for _, d := range catalogueOfTests {
		name := d.row().name
		i := event{name, "name", `{"metadata":{"uid":"u","generateName":"g","annotations":{"a":"b"},"finalizers":["f"],"ownerReferences":[{"name":"o"}]}}`}.item(t)
		if i.annotations != nil {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

func BenchmarkPodEvent(b *testing.B) {
	c := made(keeping(allKinds...), nil)
	items, changed := make([]any, 100_000), make([]any, 100_000)
	for i := range items {
		items[i] = event{"pods", fmt.Sprintf("ns/pod-%d", i), `{"metadata":{"labels":{"a":"b"}}}`}.item(b)
		changed[i] = event{"pods", fmt.Sprintf("ns/pod-%d", i), `{"metadata":{"labels":{"a":"c"}}}`}.item(b)
	}
	to := c.to("pods")
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
	c := made(keeping(allKinds...), nil)
	items := make([]any, 100_000)
	for i := range items {
		items[i] = event{"pods", fmt.Sprintf("ns/pod-%d", i), `{}`}.item(b)
	}
	_ = c.to("pods").Replace(items, "")
	b.ReportAllocs()
	for b.Loop() {
		_, _, _, _ = c.Now().Pod("ns", "pod-500")
	}
}

// TestNamedNamespace: a namespace that is only named in some text may not exist, and is not waited for.
func TestNamedNamespace(t *testing.T) {
	c := made(keeping("namespaces"), nil)
	_ = c.to("namespaces").Replace(nil, "")
	watched := *c.latest()
	watched.api = true
	c.now.Store(&watched)
	ask := c.Reader([]string{"namespaces"})
	if _, known, err := ask.NamedNamespace("absent"); known || err != nil {
		t.Errorf("%v, %v", known, err)
	}
	if _, _, err := ask.Namespace("absent"); !errors.Is(err, admit.ErrNotReady) {
		t.Error(err)
	}
}

// A snapshot's channel is closed by the next change, before followers are notified, and not by events that change
// nothing.
func TestChanged(t *testing.T) {
	c := made(keeping("namespaces"), nil)
	change := func(changes bool) { c.change(func(*state) bool { return changes }) }
	closed := func(s Snapshot) bool {
		select {
		case <-s.Changed():
			return true
		default:
			return false
		}
	}
	first := c.Now()
	change(false)
	if closed(first) {
		t.Error("closed, but nothing has changed")
	}
	change(true)
	second := c.Now()
	if !closed(first) || closed(second) {
		t.Errorf("after a change: the one before %v, the newest %v", closed(first), closed(second))
	}
	change(true)
	if !closed(second) || !closed(first) || closed(c.Now()) {
		t.Error("after one more change")
	}
}
