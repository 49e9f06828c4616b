package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"usher.dev/usher/admit"
)

var allKinds = []Kind{Namespaces, PriorityClasses, Profiles, Reservations, Pods, Nodes, EnhancedRules}

// servers runs a test against the API servers there are: with and without streamed lists, with and without pages.
func servers(t *testing.T, test func(t *testing.T, f *fakeAPI)) {
	for _, name := range []string{"watchlist", "list", "pages"} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.set(func() {
				f.watchList = name == "watchlist"
				if name == "pages" {
					f.page = 2
				}
			})
			test(t, f)
		})
	}
}

func TestWatch(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		f.apply(Namespaces, "shop", `{"metadata":{"labels":{"team":"a"}}}`)
		f.apply(PriorityClasses, "koord-batch", `{"value":5000,"preemptionPolicy":"Never","globalDefault":true,"description":"d"}`)
		f.apply(Profiles, "base", `{"spec":{"qosClass":"BE","patch":{"spec":{"x":1}}}}`)
		f.apply(Reservations, "r", `{"spec":{"template":"nobody looks at it",
			"owners":[{"labelSelector":{"matchLabels":{"a":"b"}}}]},"status":{"phase":"Available","nodeName":"n1","allocatable":{"cpu":"4"}}}`)
		f.apply(Nodes, "n1", `{"metadata":{"labels":{"zone":"z"}}}`)
		for i := range 5 {
			f.apply(Pods, fmt.Sprintf("shop/pod-%d", i), `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d","kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"nodeName":"n"}}`)
		}
		f.apply(EnhancedRules, "koordinator-system/pod-enhanced-validator-config", `{"data":{"enable":"true","rules":"[{\"name\":\"r\",\"requiredLabels\":[\"l\"]}]"}}`)
		f.apply(EnhancedRules, "koordinator-system/another", `{"data":{"enable":"true","rules":"broken"}}`)
		c := f.follow(t, Options{Kinds: allKinds})
		eventually(t, "ready", func() bool { return c.Ready() == nil })
		s := c.Now()

		labels, known, err := s.Namespace("shop")
		if labels["team"] != "a" || !known || err != nil {
			t.Errorf("Namespace: %v %v %v", labels, known, err)
		}
		if deleting, err := s.NamespaceDeleting("shop"); deleting || err != nil {
			t.Errorf("NamespaceDeleting: %v %v", deleting, err)
		}
		class, known, err := s.PriorityClass("koord-batch")
		if !known || err != nil || class.Value != 5000 || *class.PreemptionPolicy != "Never" || !class.GlobalDefault || class.Description != "" {
			t.Errorf("PriorityClass: %v %v %v", class, known, err)
		}
		if class, known, err := s.PriorityClass("typo"); class != nil || known || err != nil {
			t.Errorf("a class that is not there: %v %v %v", class, known, err)
		}
		profiles, err := s.Profiles()
		if err != nil || len(profiles) != 1 || profiles[0].Name != "base" || profiles[0].Spec.QoSClass != "BE" || profiles[0].ManagedFields != nil {
			t.Errorf("Profiles: %+v %v", profiles, err)
		}
		r, known, err := s.Reservation("r")
		if !known || err != nil || r.Spec.Template != nil || len(r.Spec.Owners) != 1 || r.Status.NodeName != "n1" || r.Status.Phase != "Available" {
			t.Errorf("Reservation: %+v %v %v", r, known, err)
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
		rules, err := s.LabelRules()
		if err != nil || len(rules) != 1 || rules[0].Name != "r" {
			t.Errorf("LabelRules: %v %v", rules, err)
		}
		if problems := c.Problems(); len(problems) > 0 {
			t.Errorf("problems: %v", problems)
		}

		f.apply(Namespaces, "shop", `{"metadata":{"labels":{"team":"b"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
		f.apply(Pods, "shop/pod-4", "")
		f.apply(EnhancedRules, "koordinator-system/another", `{"data":{"enable":"false"}}`)
		eventually(t, "a label changed and the namespace is being deleted", func() bool {
			labels, _, _ := c.Now().Namespace("shop")
			deleting, _ := c.Now().NamespaceDeleting("shop")
			return labels["team"] == "b" && deleting
		})
		eventually(t, "a pod is gone", func() bool { _, _, known, _ := c.Now().Pod("shop", "pod-4"); return !known })
		if labels, _, _ := s.Namespace("shop"); labels["team"] != "a" {
			t.Error("an old snapshot changed")
		}
		for _, status := range c.Status() {
			if !status.Synced || status.Missing || status.Err != nil || status.LastEvent.IsZero() {
				t.Errorf("status: %+v", status)
			}
			if status.Kind == Pods && status.Objects != 4 {
				t.Errorf("%d pods, want 4", status.Objects)
			}
		}
		if n := f.requests("watch pods"); n > 2 { // one for a streamed list that is not offered
			t.Errorf("the watch of pods began %d times", n)
		}
		f.set(func() {
			if !strings.Contains(f.accept["pods"], "as=PartialObjectMetadata") || strings.Contains(f.accept["reservations"], "as=") {
				t.Errorf("Accept: %v", f.accept)
			}
		})
	})
}

// TestNotReady: rule 6: no answer is guessed.
func TestNotReady(t *testing.T) {
	f := newFakeAPI(t)
	f.set(func() { f.refuse["pods"] = http.StatusForbidden })
	f.apply(Namespaces, "shop", `{}`)
	log, hook := logtest.NewNullLogger()
	c := f.follow(t, Options{Kinds: []Kind{Namespaces, Pods}, Log: log})
	eventually(t, "namespaces are there", func() bool { _, known, _ := c.Now().Namespace("shop"); return known })

	if err := c.Ready(); !errors.Is(err, admit.ErrNotReady) || !strings.Contains(err.Error(), "waiting for pods:") {
		t.Errorf("Ready: %v", err)
	}
	if _, _, known, err := c.Now().Pod("shop", "p"); known || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("Pod before the list: %v %v", known, err)
	}
	if _, known, err := c.Now().Namespace("late"); known || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a namespace that is late: %v %v", known, err)
	}
	if _, err := c.Now().NamespaceDeleting("late"); !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a namespace that is late: %v", err)
	}
	if _, err := c.Now().Profiles(); err == nil || errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a kind that is not wanted: %v", err)
	}
	eventually(t, "the error shows", func() bool { s := c.Status(); return len(s) == 2 && s[1].Err != nil && !s[1].Missing })
	eventually(t, "some more attempts", func() bool { return f.requests("list pods") > 3 })
	told := 0
	for _, entry := range hook.AllEntries() {
		if entry.Level == logrus.WarnLevel {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the same error was logged %d times", told)
	}
	f.set(func() { f.refuse["pods"] = 0 })
	eventually(t, "ready", func() bool { return c.Ready() == nil })
	if _, _, known, err := c.Now().Pod("shop", "p"); known || !errors.Is(err, admit.ErrNotReady) {
		t.Errorf("a pod that is late: %v %v", known, err)
	}
	eventually(t, "the error is gone", func() bool { return c.Status()[1].Err == nil })
}

func TestMissingCRD(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		f.set(func() { f.missing["clustercolocationprofiles"] = true })
		log, hook := logtest.NewNullLogger()
		c := f.follow(t, Options{Kinds: []Kind{Profiles}, Log: log})
		eventually(t, "ready without the CRD", func() bool { return c.Ready() == nil })
		if profiles, err := c.Now().Profiles(); len(profiles) > 0 || err != nil {
			t.Errorf("Profiles: %v %v", profiles, err)
		}
		if s := c.Status(); !s[0].Missing || s[0].Err != nil {
			t.Errorf("status: %+v", s)
		}
		eventually(t, "it is looked for again", func() bool { return f.requests("list clustercolocationprofiles") > 2 })
		f.apply(Profiles, "base", `{"spec":{}}`)
		f.set(func() { f.missing["clustercolocationprofiles"] = false })
		eventually(t, "the profile is there", func() bool { profiles, _ := c.Now().Profiles(); return len(profiles) == 1 })
		eventually(t, "no longer missing", func() bool { return !c.Status()[0].Missing })
		warnings := slices.DeleteFunc(hook.AllEntries(), func(e *logrus.Entry) bool { return e.Level != logrus.WarnLevel })
		if len(warnings) != 1 {
			t.Errorf("%d warnings, want 1", len(warnings))
		}
	})
}

// TestMissingBuiltIn: a server that does not know namespaces is no API server.
func TestMissingBuiltIn(t *testing.T) {
	f := newFakeAPI(t)
	f.set(func() { f.missing["namespaces"] = true })
	c := f.follow(t, Options{Kinds: []Kind{Namespaces}})
	eventually(t, "an error", func() bool { return c.Status()[0].Err != nil })
	if c.Ready() == nil || c.Status()[0].Missing {
		t.Error("ready without namespaces")
	}
}

// TestNoServer: a server that does not listen shows, from the first attempt on.
func TestNoServer(t *testing.T) {
	f := newFakeAPI(t)
	f.Close()
	c := f.follow(t, Options{Kinds: []Kind{Nodes}})
	eventually(t, "an error", func() bool { return c.Status()[0].Err != nil })
	if _, known := c.Now().NodeLabels("n1"); known || c.Ready() == nil {
		t.Error("ready without a server")
	}
}

// TestLoss: the last state counts while the server is away, and what happened meanwhile is learnt.
func TestLoss(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		f.apply(Pods, "shop/a", `{"metadata":{"labels":{"v":"1"}}}`)
		f.apply(Pods, "shop/b", `{}`)
		c := f.follow(t, Options{Kinds: []Kind{Pods}})
		eventually(t, "ready", func() bool { return c.Ready() == nil })
		f.set(func() { f.refuse["pods"] = http.StatusServiceUnavailable })
		f.CloseClientConnections()
		eventually(t, "the loss shows", func() bool { return c.Status()[0].Err != nil })
		if labels, _, known, err := c.Now().Pod("shop", "a"); labels["v"] != "1" || !known || err != nil || c.Ready() != nil {
			t.Errorf("while away: %v %v %v %v", labels, known, err, c.Ready())
		}
		f.apply(Pods, "shop/a", `{"metadata":{"labels":{"v":"2"}}}`)
		f.apply(Pods, "shop/b", "")
		f.set(func() { f.refuse["pods"], f.compacted = 0, f.version }) // 410 for who goes on from before
		eventually(t, "all is learnt", func() bool {
			labels, _, _, _ := c.Now().Pod("shop", "a")
			_, _, known, _ := c.Now().Pod("shop", "b")
			return labels["v"] == "2" && !known
		})
		eventually(t, "the error is gone", func() bool { return c.Status()[0].Err == nil })
	})
}

// TestGone: a watch that is told 410 lists again.
func TestGone(t *testing.T) {
	f := newFakeAPI(t)
	f.set(func() { f.watchList = false })
	f.apply(Pods, "shop/a", `{}`)
	c := f.follow(t, Options{Kinds: []Kind{Pods}})
	eventually(t, "ready", func() bool { return c.Ready() == nil })
	eventually(t, "watching", func() bool { return f.requests("watch pods") > 1 }) // the first asks for a streamed list
	f.set(func() {
		delete(f.stored["pods"], "shop/a") // with no event that tells
		f.version++
		f.compacted = f.version
	})
	f.CloseClientConnections()
	eventually(t, "the pod is gone", func() bool { _, _, known, _ := c.Now().Pod("shop", "a"); return !known })
	if f.requests("list pods") < 2 {
		t.Error("no second list")
	}
}

// TestUnreadable: an object that does not decode leaves the one before it, and everything else works on.
func TestUnreadable(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		f.apply(Profiles, "bad", `{"spec":{"labels":"none"}}`)
		f.apply(Profiles, "good", `{"spec":{"schedulerName":"one"}}`)
		c := f.follow(t, Options{Kinds: []Kind{Profiles}})
		eventually(t, "ready", func() bool { return c.Ready() == nil })
		profiles, _ := c.Now().Profiles()
		if p := c.Problems(); len(profiles) != 1 || len(p) != 1 || !strings.Contains(p[0].Error(), "clustercolocationprofiles bad: ") {
			t.Fatalf("%+v, problems %v", profiles, p)
		}
		f.apply(Profiles, "good", `{"spec":{"schedulerName":7}}`)
		eventually(t, "two problems", func() bool { return len(c.Problems()) == 2 })
		if profiles, _ := c.Now().Profiles(); len(profiles) != 1 || profiles[0].Spec.SchedulerName != "one" {
			t.Errorf("%+v", profiles)
		}
		listed := f.requests("watch clustercolocationprofiles")
		f.set(func() { f.version++; f.compacted = f.version })
		f.CloseClientConnections() // and so it stays when all is listed again
		eventually(t, "listed again", func() bool { return f.requests("watch clustercolocationprofiles") > listed+1 })
		f.apply(Profiles, "last", `{}`)
		eventually(t, "last", func() bool { profiles, _ := c.Now().Profiles(); return len(profiles) == 2 })
		if profiles, _ := c.Now().Profiles(); profiles[0].Spec.SchedulerName != "one" {
			t.Errorf("%+v", profiles)
		}
		f.apply(Profiles, "bad", `{}`)
		f.apply(Profiles, "good", "")
		eventually(t, "no problem", func() bool { return len(c.Problems()) == 0 })
	})
}

// TestStorm: whatever happens on the way, the cluster comes to what the server has. Readers go on meanwhile.
func TestStorm(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		random := rand.New(rand.NewPCG(1, 2))
		c := f.follow(t, Options{Kinds: allKinds})
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() { readUntil(ctx, c) })
		}
		for step := range 300 {
			key := fmt.Sprintf("shop/p%d", random.IntN(20))
			switch random.IntN(12) {
			case 0:
				f.apply(Pods, key, "")
			case 1:
				f.apply(Namespaces, strings.ReplaceAll(key, "/", "-"), fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, step))
			case 2:
				f.apply(Profiles, strings.ReplaceAll(key, "/", "-"), `{"spec":{}}`)
			case 3:
				if random.IntN(4) == 0 {
					f.CloseClientConnections()
				}
			case 4:
				f.set(func() { f.compacted = f.version })
			default:
				f.apply(Pods, key, fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, step))
			}
		}
		f.apply(Pods, "shop/last", `{}`)
		eventually(t, "the server's state", func() bool { return len(differences(f, c)) == 0 })
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
		_, _ = s.LabelRules()
		_, _ = c.Status(), c.Problems()
	}
}

// differences names the objects that the cluster knows otherwise than the server.
func differences(f *fakeAPI, c *Cluster) (wrong []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := c.Now()
	for _, k := range allKinds {
		known := maps.Collect(s.kinds[k].objects.all())
		for key, raw := range f.stored[rows[k].resource] {
			if _, ok := known[key]; !ok || k == Pods && stepOf(raw) != known[key].(*pod).labels["step"] {
				wrong = append(wrong, key)
			}
			delete(known, key)
		}
		wrong = append(wrong, slices.Collect(maps.Keys(known))...)
	}
	return wrong
}

func stepOf(raw []byte) string {
	var o struct {
		Metadata struct{ Labels map[string]string }
	}
	_ = json.Unmarshal(raw, &o)
	return o.Metadata.Labels["step"]
}
