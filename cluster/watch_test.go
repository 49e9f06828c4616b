package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/clustertest"
	seeds "usher.dev/usher/test/seed"
)

// servers runs a test against all variants of API servers: with and without streamed lists, with and without pages.
func servers(t *testing.T, test func(t *testing.T, f *clustertest.Server)) {
	for _, name := range []string{"watchlist", "list", "pages"} {
		t.Run(name, func(t *testing.T) {
			f := clustertest.New(t)
			f.Set(func() {
				f.WatchList = name == "watchlist"
				if name == "pages" {
					f.Page = 2
				}
			})
			test(t, f)
		})
	}
}

func TestWatch(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		f.Apply(kind("namespaces"), "shop", `{"metadata":{"labels":{"team":"a"}}}`)
		f.Apply(kind("clustercolocationprofiles"), "base", `{"spec":{"schedulerName":"s","template":"nobody looks at it"}}`)
		f.Apply(kind("nodes"), "n1", `{"metadata":{"labels":{"zone":"z"}}}`)
		for i := range 5 {
			f.Apply(kind("pods"), fmt.Sprintf("shop/pod-%d", i), `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},"spec":{"nodeName":"n"}}`)
		}
		f.Apply(kind("rules"), "default/c", `{"data":{"rules":"r"}}`)
		f.Apply(kind("rules"), "default/another", `{"data":{"rules":"another"}}`)
		c := watching(t, f, keeping(allKinds...))
		clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
		s := c.Now()

		labels, known, err := s.Namespace("shop")
		if labels["team"] != "a" || !known || err != nil {
			t.Errorf("Namespace: %v %v %v", labels, known, err)
		}
		profiles, err := s.Profiles()
		if err != nil || len(profiles) != 1 || profiles[0].Name != "base" || profiles[0].Spec.SchedulerName != "s" || profiles[0].ManagedFields != nil {
			t.Errorf("Profiles: %+v %v", profiles, err)
		}
		podLabels, annotations, known, err := s.Pod("shop", "pod-4")
		if podLabels["a"] != "b" || len(annotations) != 1 || annotations["c"] != "d" || !known || err != nil {
			t.Errorf("Pod: %v %v %v %v", podLabels, annotations, known, err)
		}
		if labels, known := s.NodeLabels("n1"); labels["zone"] != "z" || !known {
			t.Errorf("NodeLabels: %v %v", labels, known)
		}
		if _, known := s.NodeLabels("n2"); known {
			t.Error("a node that is not there is known")
		}
		if rules, err := Rules.Get(s); err != nil || rules != "r" {
			t.Errorf("Rules: %v %v", rules, err)
		}
		if problems := c.Problems(); len(problems) > 0 {
			t.Errorf("problems: %v", problems)
		}

		f.Apply(kind("namespaces"), "shop", `{"metadata":{"labels":{"team":"b"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
		f.Apply(kind("pods"), "shop/pod-4", "")
		f.Apply(kind("rules"), "default/another", `{"data":{"rules":"a third"}}`)
		clustertest.Eventually(t, "a label changed and the namespace is being deleted", func() bool {
			labels, _, _ := c.Now().Namespace("shop")
			deleting, _ := c.Reader(allKinds).NamespaceDeleting("shop")
			return labels["team"] == "b" && deleting
		})
		clustertest.Eventually(t, "a pod is gone", func() bool { _, _, known, _ := c.Now().Pod("shop", "pod-4"); return !known })
		if labels, _, _ := s.Namespace("shop"); labels["team"] != "a" {
			t.Error("an old snapshot changed")
		}
		for _, status := range c.Status() {
			if !status.Synced || status.Missing || status.Err != nil || status.LastEvent.IsZero() {
				t.Errorf("status: %+v", status)
			}
			if status.Name == "pods" && status.Objects != 4 {
				t.Errorf("%d pods, want 4", status.Objects)
			}
		}
		if n := f.Requests("watch pods"); n > 2 { // one for a streamed list that is not offered
			t.Errorf("the watch of pods began %d times", n)
		}
		f.Set(func() {
			if !strings.Contains(f.Accept["pods"], "as=PartialObjectMetadata") || strings.Contains(f.Accept["clustercolocationprofiles"], "as=") {
				t.Errorf("Accept: %v", f.Accept)
			}
		})
	})
}

// TestNotReady: before a collection is synced, reading it is an error.
func TestNotReady(t *testing.T) {
	f := clustertest.New(t)
	f.Set(func() { f.Refuse["pods"] = http.StatusForbidden })
	f.Apply(kind("namespaces"), "shop", `{}`)
	log, hook := logtest.NewNullLogger()
	c := watching(t, f, Options{Catalogue: catalogueOfTests, Needs: []string{"namespaces", "pods"}, Log: log})
	clustertest.Eventually(t, "namespaces are there", func() bool { _, known, _ := c.Now().Namespace("shop"); return known })

	if err := c.Ready(); !errors.Is(err, admit.ErrNotReady) || !strings.Contains(err.Error(), "waiting for pods:") {
		t.Errorf("Ready: %v", err)
	}
	if _, _, known, err := c.Now().Pod("shop", "p"); known || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("Pod before the list: %v %v", known, err)
	}
	if _, known, err := c.Now().Namespace("late"); known || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a namespace that is late: %v %v", known, err)
	}
	if _, err := c.Reader([]string{"namespaces"}).NamespaceDeleting("late"); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a namespace that is late: %v", err)
	}
	if _, err := c.Now().Profiles(); err == nil || errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a kind that is not wanted: %v", err)
	}
	clustertest.Eventually(t, "the error shows", func() bool { s := c.Status(); return len(s) == 2 && s[1].Err != nil && !s[1].Missing })
	clustertest.Eventually(t, "some more attempts", func() bool { return f.Requests("list pods") > 3 })
	told := 0
	for _, entry := range hook.AllEntries() {
		if entry.Level == logrus.WarnLevel {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the same error was logged %d times", told)
	}
	f.Set(func() { f.Refuse["pods"] = 0 })
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	if _, _, known, err := c.Now().Pod("shop", "p"); known || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a pod that is late: %v %v", known, err)
	}
	clustertest.Eventually(t, "the error is gone", func() bool { return c.Status()[1].Err == nil })
}

func TestMissingCRD(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		f.Set(func() { f.Missing["clustercolocationprofiles"] = true })
		log, hook := logtest.NewNullLogger()
		c := watching(t, f, Options{Catalogue: catalogueOfTests, Needs: []string{"clustercolocationprofiles"}, Log: log})
		clustertest.Eventually(t, "ready without the CRD", func() bool { return c.Ready() == nil })
		if profiles, err := c.Now().Profiles(); len(profiles) > 0 || err != nil {
			t.Errorf("Profiles: %v %v", profiles, err)
		}
		if s := c.Status(); !s[0].Missing || s[0].Err != nil {
			t.Errorf("status: %+v", s)
		}
		clustertest.Eventually(t, "it is looked for again", func() bool { return f.Requests("list clustercolocationprofiles") > 2 })
		f.Apply(kind("clustercolocationprofiles"), "base", `{"spec":{}}`)
		f.Set(func() { f.Missing["clustercolocationprofiles"] = false })
		clustertest.Eventually(t, "the profile is there", func() bool { profiles, _ := c.Now().Profiles(); return len(profiles) == 1 })
		clustertest.Eventually(t, "no longer missing", func() bool { return !c.Status()[0].Missing })
		warnings := slices.DeleteFunc(hook.AllEntries(), func(e *logrus.Entry) bool { return e.Level != logrus.WarnLevel })
		if len(warnings) != 1 {
			t.Errorf("%d warnings, want 1", len(warnings))
		}
	})
}

// TestMissingBuiltIn: a server without namespaces is not a working API server.
func TestMissingBuiltIn(t *testing.T) {
	f := clustertest.New(t)
	f.Set(func() { f.Missing["namespaces"] = true })
	c := watching(t, f, keeping("namespaces"))
	clustertest.Eventually(t, "an error", func() bool { return c.Status()[0].Err != nil })
	if c.Ready() == nil || c.Status()[0].Missing {
		t.Error("ready without namespaces")
	}
}

// TestNoServer: a server that does not listen is reported, from the first attempt on.
func TestNoServer(t *testing.T) {
	f := clustertest.New(t)
	f.Close()
	c := watching(t, f, keeping("nodes"))
	clustertest.Eventually(t, "an error", func() bool { return c.Status()[0].Err != nil })
	if _, known := c.Now().NodeLabels("n1"); known || c.Ready() == nil {
		t.Error("ready without a server")
	}
}

// TestLoss: the last state stays in use while the server is unavailable, and missed events are caught up.
func TestLoss(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		f.Apply(kind("pods"), "shop/a", `{"metadata":{"labels":{"v":"1"}}}`)
		f.Apply(kind("pods"), "shop/b", `{}`)
		c := watching(t, f, keeping("pods"))
		clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
		f.Set(func() { f.Refuse["pods"] = http.StatusServiceUnavailable })
		f.CloseClientConnections()
		clustertest.Eventually(t, "the loss shows", func() bool { return c.Status()[0].Err != nil })
		if labels, _, known, err := c.Now().Pod("shop", "a"); labels["v"] != "1" || !known || err != nil || c.Ready() != nil {
			t.Errorf("while away: %v %v %v %v", labels, known, err, c.Ready())
		}
		f.Apply(kind("pods"), "shop/a", `{"metadata":{"labels":{"v":"2"}}}`)
		f.Apply(kind("pods"), "shop/b", "")
		f.Set(func() { f.Refuse["pods"], f.Compacted = 0, f.Latest }) // 410 for who goes on from before
		clustertest.Eventually(t, "all is learnt", func() bool {
			labels, _, _, _ := c.Now().Pod("shop", "a")
			_, _, known, _ := c.Now().Pod("shop", "b")
			return labels["v"] == "2" && !known
		})
		clustertest.Eventually(t, "the error is gone", func() bool { return c.Status()[0].Err == nil })
	})
}

// TestGone: after a 410 the collection is listed again.
func TestGone(t *testing.T) {
	f := clustertest.New(t)
	f.Set(func() { f.WatchList = false })
	f.Apply(kind("pods"), "shop/a", `{}`)
	c := watching(t, f, keeping("pods"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	clustertest.Eventually(t, "watching", func() bool { return f.Requests("watch pods") > 1 }) // the first asks for a streamed list
	f.Set(func() {
		delete(f.Stored["pods"], "shop/a") // with no event that tells
		f.Latest++
		f.Compacted = f.Latest
	})
	f.CloseClientConnections()
	clustertest.Eventually(t, "the pod is gone", func() bool { _, _, known, _ := c.Now().Pod("shop", "a"); return !known })
	if f.Requests("list pods") < 2 {
		t.Error("no second list")
	}
}

// TestUnreadable: if an object does not decode, its previous state stays, and everything else keeps working.
func TestUnreadable(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		f.Apply(kind("clustercolocationprofiles"), "bad", `{"spec":{"labels":"none"}}`)
		f.Apply(kind("clustercolocationprofiles"), "good", `{"spec":{"schedulerName":"one"}}`)
		c := watching(t, f, keeping("clustercolocationprofiles"))
		clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
		profiles, _ := c.Now().Profiles()
		if p := c.Problems(); len(profiles) != 1 || len(p) != 1 || !strings.Contains(p[0].Error(), "clustercolocationprofiles bad: ") {
			t.Fatalf("%+v, problems %v", profiles, p)
		}
		f.Apply(kind("clustercolocationprofiles"), "good", `{"spec":{"schedulerName":7}}`)
		clustertest.Eventually(t, "two problems", func() bool { return len(c.Problems()) == 2 })
		if profiles, _ := c.Now().Profiles(); len(profiles) != 1 || profiles[0].Spec.SchedulerName != "one" {
			t.Errorf("%+v", profiles)
		}
		listed := f.Requests("watch clustercolocationprofiles")
		f.Set(func() { f.Latest++; f.Compacted = f.Latest })
		f.CloseClientConnections() // and so it stays when all is listed again
		clustertest.Eventually(t, "listed again", func() bool { return f.Requests("watch clustercolocationprofiles") > listed+1 })
		f.Apply(kind("clustercolocationprofiles"), "last", `{}`)
		clustertest.Eventually(t, "last", func() bool { profiles, _ := c.Now().Profiles(); return len(profiles) == 2 })
		if profiles, _ := c.Now().Profiles(); profiles[0].Spec.SchedulerName != "one" {
			t.Errorf("%+v", profiles)
		}
		f.Apply(kind("clustercolocationprofiles"), "bad", `{}`)
		f.Apply(kind("clustercolocationprofiles"), "good", "")
		clustertest.Eventually(t, "no problem", func() bool { return len(c.Problems()) == 0 })
	})
}

// TestStorm: whatever happens on the way, the cluster ends up with the server's state. Readers run concurrently.
func TestStorm(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		random := seeds.Random(t)
		c := watching(t, f, keeping(allKinds...))
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() { readUntil(ctx, c) })
		}
		for step := range 300 {
			key := fmt.Sprintf("shop/p%d", random.IntN(20))
			switch random.IntN(12) {
			case 0:
				f.Apply(kind("pods"), key, "")
			case 1:
				f.Apply(kind("namespaces"), strings.ReplaceAll(key, "/", "-"), fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, step))
			case 2:
				f.Apply(kind("clustercolocationprofiles"), strings.ReplaceAll(key, "/", "-"), `{"spec":{}}`)
			case 3:
				if random.IntN(4) == 0 {
					f.CloseClientConnections()
				}
			case 4:
				f.Set(func() { f.Compacted = f.Latest })
			default:
				f.Apply(kind("pods"), key, fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, step))
			}
		}
		f.Apply(kind("pods"), "shop/last", `{}`)
		clustertest.Eventually(t, "the server's state", func() bool { return len(differences(f, c)) == 0 })
		stop()
		readers.Wait()
	})
}

func readUntil(ctx context.Context, c *Cluster) {
	for ctx.Err() == nil {
		s := c.Now()
		_, _, _, _ = s.Pod("shop", "p1")
		_, _, _ = s.Namespace("shop-p1")
		_, _ = s.Profiles()
		_, _ = Rules.Get(s)
		_, _ = c.Status(), c.Problems()
	}
}

// differences returns the names of the objects that differ between the cluster and the server.
func differences(f *clustertest.Server, c *Cluster) (wrong []string) {
	f.Set(func() {
		for k, r := range c.rows {
			if !c.wanted[k] {
				continue
			}
			known := maps.Collect(c.latest().collected[k].objects.All())
			for key, raw := range f.Stored[r.resource] {
				if _, ok := known[key]; !ok || r.name == "pods" && stepOf(raw) != known[key].(*podMeta).labels["step"] {
					wrong = append(wrong, key)
				}
				delete(known, key)
			}
			wrong = append(wrong, slices.Collect(maps.Keys(known))...)
		}
	})
	return wrong
}

func stepOf(raw []byte) string {
	var o struct {
		Metadata struct{ Labels map[string]string }
	}
	_ = json.Unmarshal(raw, &o)
	return o.Metadata.Labels["step"]
}
