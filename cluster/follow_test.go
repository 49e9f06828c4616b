package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"usher.dev/usher/quota"
	"usher.dev/usher/quota/ledger"
)

// follower notes what it is told. It has no lock around what it notes but for the test that looks: that it is told one thing at a time,
// the race detector sees by told.
type follower struct {
	told int

	mu    sync.Mutex
	lines []string
	check func(ledger.Seen) // of each object that is put
}

func (f *follower) note(format string, values ...any) {
	f.told++
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, fmt.Sprintf(format, values...))
}

func (f *follower) Replace(all []ledger.Seen, version string) {
	var texts []string
	for _, s := range all {
		texts = append(texts, textOf(s))
	}
	slices.Sort(texts)
	f.note("replace [%s] %s", strings.Join(texts, ", "), version)
}

func (f *follower) Put(s ledger.Seen) {
	f.mu.Lock()
	check := f.check
	f.mu.Unlock()
	if check != nil {
		check(s)
	}
	f.note("put %s", textOf(s))
}

func (f *follower) Remove(s ledger.Seen)   { f.note("remove %s", textOf(s)) }
func (f *follower) Reached(version string) { f.note("reached %s", version) }

// textOf is an object as key@version=what, what being a pod's node, or a quota's cpu and annotations.
func textOf(s ledger.Seen) string {
	what := "nil"
	switch o := s.Object.(type) {
	case *quota.Pod:
		what = o.Node
	case *quota.Quota:
		what = o.Max.Cpu().String() + s.Record + s.ChildRequest
	}
	return s.Key + "@" + s.Version + "=" + what
}

// history is what was told until now, without bookmarks unless they are asked for.
func (f *follower) history(bookmarks bool) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.lines), func(line string) bool { return !bookmarks && strings.HasPrefix(line, "reached") })
}

func follows(k Kind, f ledger.Follower) map[Kind]ledger.Follower {
	return map[Kind]ledger.Follower{k: f}
}

func onNode(node string) string { return `{"spec":{"nodeName":"` + node + `"}}` }

// until waits until a line was told, and gives all up to now.
func (f *follower) until(t *testing.T, last string) []string {
	t.Helper()
	var all []string
	eventually(t, last, func() bool { all = f.history(false); return slices.Contains(all, last) })
	return all
}

func TestFollow(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		f.apply(PodRequests, "ns/a", onNode("n1")) // 101
		f.apply(PodRequests, "ns/b", onNode("n1")) // 102
		follower := &follower{}
		c := f.follow(t, Options{Kinds: quotaKinds, Follow: follows(PodRequests, follower)})
		follower.mu.Lock()
		follower.check = func(s ledger.Seen) {
			if kept, _ := c.Now().kinds[PodRequests].objects.get(s.Key); kept != s.Object {
				t.Errorf("%s: what was told is not in force, or twice in memory", s.Key)
			}
		}
		follower.mu.Unlock()
		eventually(t, "ready", func() bool { return c.Ready() == nil })
		f.apply(PodRequests, "ns/a", onNode("n2"))                                  // 103
		f.apply(PodRequests, "ns/a", `{"metadata":{"labels":{}},`+onNode("n2")[1:]) // 104: nothing that is kept
		f.apply(PodRequests, "ns/a", `{"spec":{"nodeName":7}}`)                     // 105: does not decode
		f.apply(PodRequests, "ns/c", `{"spec":{"nodeName":7}}`)                     // 106: never did
		f.apply(PodRequests, "ns/b", "")                                            // 107
		f.apply(PodRequests, "ns/c", "")                                            // 108
		f.apply(PodRequests, "ns/d", onNode(""))                                    // 109
		all := follower.until(t, "put ns/d@109=")
		want := []string{"replace [ns/a@101=n1, ns/b@102=n1] 102", "put ns/a@103=n2", "put ns/a@104=n2", "put ns/a@105=n2", "put ns/c@106=nil",
			"remove ns/b@107=n1", "remove ns/c@108=nil", "put ns/d@109="}
		if !slices.Equal(all, want) {
			t.Errorf("%q\nwant\n%q", all, want)
		}
		eventually(t, "a bookmark", func() bool { return slices.Contains(follower.history(true), "reached 109") })

		f.set(func() { // the connection is lost, and what happened since is no longer known
			delete(f.stored["pods"], "ns/d")
			f.version++
			f.compacted = f.version
		})
		f.CloseClientConnections()
		follower.until(t, "replace [ns/a@105=n2] 110")
		f.apply(PodRequests, "ns/a", onNode("n3"))
		follower.until(t, "put ns/a@111=n3")
	})
}

// TestFollowDeletion: the last state of an object comes with its deletion, and if that does not decode, the one that was known.
func TestFollowDeletion(t *testing.T) {
	follower := &follower{}
	c := newCluster(Options{Kinds: quotaKinds, Follow: follows(PodRequests, follower)}, nil)
	to := &store{c, PodRequests}
	_ = to.Replace([]any{event{PodRequests, "ns/a", onNode("n1")}.item(t), event{PodRequests, "ns/b", onNode("n1")}.item(t)}, "1")
	_ = to.Delete(event{PodRequests, "ns/a", onNode("n2")}.item(t))
	_ = to.Delete(event{PodRequests, "ns/b", `{"spec":1}`}.item(t))
	if got := follower.history(true)[1:]; !slices.Equal(got, []string{"remove ns/a@1=n2", "remove ns/b@1=n1"}) {
		t.Errorf("%q", got)
	}
}

// TestFollowQuotas: the follower sees what nobody else is told of.
func TestFollowQuotas(t *testing.T) {
	f := newFakeAPI(t)
	f.apply(ElasticQuotas, "org/top", aQuota) // 101
	follower := &follower{}
	c := f.follow(t, Options{Kinds: quotaKinds, Follow: follows(ElasticQuotas, follower)})
	follower.until(t, "replace [org/top@101=4] 101")
	before := c.Now()
	if _, err := c.Records().Write(t.Context(), top, "101", "r"); err != nil {
		t.Fatal(err)
	}
	follower.until(t, "put org/top@102=4r")
	if err := c.WriteChildRequest(t.Context(), top, "c"); err != nil {
		t.Fatal(err)
	}
	follower.until(t, "put org/top@103=4rc")
	if treeOf(t, before) != treeOf(t, c.Now()) {
		t.Error("another tree")
	}
	f.apply(ElasticQuotas, "org/top", `{"metadata":{"annotations":{"usher.dev/reservations":"s"}},"spec":{"max":1}}`)
	follower.until(t, "put org/top@104=4s")
}

func treeOf(t *testing.T, s *Snapshot) *quota.Tree {
	t.Helper()
	tree, err := s.QuotaTree()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestFollowMissing: that a kind is not defined is told once, and its objects when it is.
func TestFollowMissing(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		f.set(func() { f.missing["elasticquotas"] = true })
		follower := &follower{}
		f.follow(t, Options{Kinds: quotaKinds, Follow: follows(ElasticQuotas, follower)})
		eventually(t, "it is looked for again", func() bool { return f.requests("list elasticquotas") > 2 })
		if got := follower.history(true); !slices.Equal(got, []string{"replace [] "}) {
			t.Errorf("%q", got)
		}
		f.apply(ElasticQuotas, "org/top", aQuota)
		f.set(func() { f.missing["elasticquotas"] = false })
		follower.until(t, "replace [org/top@101=4] 101")
	})
}

// TestFollowFiles: each reading in force is all there is, of a version that grows, whatever versions the files name.
func TestFollowFiles(t *testing.T) {
	follower := &follower{}
	pods := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, resourceVersion: '999'}\nspec: {nodeName: n1}\n"
	f := &files{ignored: map[string]string{}, dir: write(t, "", map[string]string{"a.yaml": pods})}
	c := newCluster(Options{Kinds: quotaKinds, Follow: follows(PodRequests, follower)}, f)
	if err := f.open(c); err != nil {
		t.Fatal(err)
	}
	next := func(content string) {
		write(t, f.dir, map[string]string{"a.yaml": content})
		again(f, c)
	}
	next("broken")
	next(pods + "---\n" + strings.ReplaceAll(pods, "name: a", "name: b"))
	next("")
	want := []string{"replace [default/a@1=n1] 1", "replace [default/a@2=n1, default/b@2=n1] 2", "replace [] 3"}
	if got := follower.history(true); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestFollowStorm: whatever happens on the way, who follows comes to what the server has, and versions only grow.
func TestFollowStorm(t *testing.T) {
	servers(t, func(t *testing.T, f *fakeAPI) {
		keep := &mirror{nodes: map[string]string{}}
		f.follow(t, Options{Kinds: quotaKinds, Follow: follows(PodRequests, keep)})
		for step := range 200 {
			key := fmt.Sprintf("ns/p%d", step*7%20)
			switch {
			case step%9 == 0:
				f.apply(PodRequests, key, "")
			case step%50 == 30:
				f.CloseClientConnections()
			case step%50 == 31:
				f.set(func() { f.compacted = f.version })
			default:
				f.apply(PodRequests, key, onNode(strconv.Itoa(step)))
			}
		}
		f.apply(PodRequests, "ns/last", onNode("n"))
		eventually(t, "the server's state", func() bool { return keep.like(f) })
		keep.mu.Lock()
		defer keep.mu.Unlock()
		if keep.back != "" {
			t.Error(keep.back)
		}
	})
}

// mirror is a follower that knows the node of each pod.
type mirror struct {
	mu      sync.Mutex
	nodes   map[string]string
	version int
	back    string // a version that was older than the one before
}

func (m *mirror) reach(version string) {
	n, _ := strconv.Atoi(version)
	if n < m.version {
		m.back = fmt.Sprintf("%s after %d", version, m.version)
	}
	m.version = n
}

func (m *mirror) Replace(all []ledger.Seen, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = map[string]string{}
	for _, s := range all {
		m.nodes[s.Key] = s.Object.(*quota.Pod).Node
	}
	m.reach(version)
}

func (m *mirror) Put(s ledger.Seen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes[s.Key] = s.Object.(*quota.Pod).Node
	m.reach(s.Version)
}

func (m *mirror) Remove(s ledger.Seen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, s.Key)
	m.reach(s.Version)
}

func (m *mirror) Reached(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reach(version)
}

// like tells whether the mirror has the server's pods.
func (m *mirror) like(f *fakeAPI) (same bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.set(func() {
		same = len(f.stored["pods"]) == len(m.nodes)
		for key, raw := range f.stored["pods"] {
			same = same && strings.Contains(string(raw), `"nodeName":"`+m.nodes[key]+`"`)
		}
	})
	return same
}
