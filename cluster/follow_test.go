package cluster

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"usher.dev/usher/test/clustertest"
)

// follower records what it receives. mu only guards what tests read; told is not guarded, so that the race detector
// reports calls that overlap.
type follower struct {
	told int

	mu    sync.Mutex
	lines []string
	check func(Object) // of each object that is put
}

func (f *follower) note(format string, values ...any) {
	f.told++
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, fmt.Sprintf(format, values...))
}

func (f *follower) Replace(all iter.Seq[Object], version string) {
	var texts []string
	for s := range all {
		texts = append(texts, textOf(s))
	}
	slices.Sort(texts)
	f.note("replace [%s] %s", strings.Join(texts, ", "), version)
}

func (f *follower) Put(s Object) {
	f.mu.Lock()
	check := f.check
	f.mu.Unlock()
	if check != nil {
		check(s)
	}
	f.note("put %s", textOf(s))
}

func (f *follower) Remove(s Object)        { f.note("remove %s", textOf(s)) }
func (f *follower) Reached(version string) { f.note("reached %s", version) }

// textOf returns an object as key@version=kept told, where kept is a pod's node.
func textOf(s Object) string {
	what := "nil"
	if pod, ok := s.Kept.(*podNode); ok {
		what = pod.node
	}
	return s.Key + "@" + s.Version + "=" + what + s.Annotations["told"]
}

// history returns everything received so far, without bookmarks unless they are requested.
func (f *follower) history(bookmarks bool) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.lines), func(line string) bool { return !bookmarks && strings.HasPrefix(line, "reached") })
}

// followed returns options for a cluster that keeps the nodes of pods and has a follower.
func followed(f Follower) Options {
	o := keeping("podnodes")
	o.Follow = func(*Cluster) map[string]Follower { return map[string]Follower{"podnodes": f} }
	return o
}

func onNode(node string) string { return `{"spec":{"nodeName":"` + node + `"}}` }

// until waits until a line has been received, and returns all lines so far.
func (f *follower) until(t *testing.T, last string) []string {
	t.Helper()
	var all []string
	clustertest.Eventually(t, last, func() bool { all = f.history(false); return slices.Contains(all, last) })
	return all
}

func TestFollow(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		f.Apply(kind("podnodes"), "ns/a", onNode("n1")) // 101
		f.Apply(kind("podnodes"), "ns/b", onNode("n1")) // 102
		follower := &follower{}
		c := watching(t, f, followed(follower))
		follower.mu.Lock()
		follower.check = func(s Object) {
			if kept, _ := c.latest().collected[c.index["podnodes"]].objects.Get(s.Key); kept != s.Kept {
				t.Errorf("%s: what was told is not in force, or twice in memory", s.Key)
			}
		}
		follower.mu.Unlock()
		clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
		f.Apply(kind("podnodes"), "ns/a", onNode("n2"))                                  // 103
		f.Apply(kind("podnodes"), "ns/a", `{"metadata":{"labels":{}},`+onNode("n2")[1:]) // 104: nothing that is kept
		f.Apply(kind("podnodes"), "ns/a", `{"spec":{"nodeName":7}}`)                     // 105: does not decode
		f.Apply(kind("podnodes"), "ns/c", `{"spec":{"nodeName":7}}`)                     // 106: never did
		f.Apply(kind("podnodes"), "ns/b", "")                                            // 107
		f.Apply(kind("podnodes"), "ns/c", "")                                            // 108
		f.Apply(kind("podnodes"), "ns/d", onNode(""))                                    // 109
		all := follower.until(t, "put ns/d@109=")
		want := []string{"replace [ns/a@101=n1, ns/b@102=n1] 102", "put ns/a@103=n2", "put ns/a@104=n2", "put ns/a@105=n2", "put ns/c@106=nil",
			"remove ns/b@107=n1", "remove ns/c@108=nil", "put ns/d@109="}
		if !slices.Equal(all, want) {
			t.Errorf("%q\nwant\n%q", all, want)
		}
		clustertest.Eventually(t, "a bookmark", func() bool { return slices.Contains(follower.history(true), "reached 109") })

		f.Set(func() { // the connection is lost, and what happened since is no longer known
			delete(f.Stored["pods"], "ns/d")
			f.Latest++
			f.Compacted = f.Latest
		})
		f.CloseClientConnections()
		follower.until(t, "replace [ns/a@105=n2] 110")
		f.Apply(kind("podnodes"), "ns/a", onNode("n3"))
		follower.until(t, "put ns/a@111=n3")
	})
}

// TestFollowDeletion: Remove passes the last state of an object or, if that does not decode, the last known one.
func TestFollowDeletion(t *testing.T) {
	follower := &follower{}
	c := made(followed(follower), nil)
	to := c.to("podnodes")
	_ = to.Replace([]any{event{"podnodes", "ns/a", onNode("n1")}.item(t), event{"podnodes", "ns/b", onNode("n1")}.item(t)}, "1")
	_ = to.Delete(event{"podnodes", "ns/a", onNode("n2")}.item(t))
	_ = to.Delete(event{"podnodes", "ns/b", `{"spec":1}`}.item(t))
	if got := follower.history(true)[1:]; !slices.Equal(got, []string{"remove ns/a@1=n2", "remove ns/b@1=n1"}) {
		t.Errorf("%q", got)
	}
}

// TestFollowTold: the follower also receives what is not kept, always of the newest state, even if that does not
// decode.
func TestFollowTold(t *testing.T) {
	f, follower := clustertest.New(t), &follower{}
	f.Apply(kind("podnodes"), "ns/a", onNode("n1")) // 101
	c := watching(t, f, followed(follower))
	follower.until(t, "replace [ns/a@101=n1] 101")
	before := c.latest()
	f.Apply(kind("podnodes"), "ns/a", `{"metadata":{"annotations":{"told":"r","other":"x"}},"spec":{"nodeName":"n1"}}`)
	follower.until(t, "put ns/a@102=n1r")
	if c.latest() != before {
		t.Error("another state for what is not kept")
	}
	f.Apply(kind("podnodes"), "ns/a", `{"metadata":{"annotations":{"told":"s"}},"spec":{"nodeName":1}}`)
	follower.until(t, "put ns/a@103=n1s")
}

// TestFollowMissing: a follower is notified once that a kind is not defined, and of its objects as soon as it is.
func TestFollowMissing(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		const name = "clustercolocationprofiles"
		f.Set(func() { f.Missing[name] = true })
		follower := &follower{}
		o := keeping(name)
		o.Follow = func(*Cluster) map[string]Follower { return map[string]Follower{name: follower} }
		watching(t, f, o)
		clustertest.Eventually(t, "it is looked for again", func() bool { return f.Requests("list "+name) > 2 })
		if got := follower.history(true); !slices.Equal(got, []string{"replace [] "}) {
			t.Errorf("%q", got)
		}
		f.Apply(kind(name), "base", `{}`)
		f.Set(func() { f.Missing[name] = false })
		follower.until(t, "replace [base@101=nil] 101")
	})
}

// TestFollowFiles: each used reading replaces everything, with an increasing version, whatever versions the files
// contain.
func TestFollowFiles(t *testing.T) {
	follower := &follower{}
	pods := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, resourceVersion: '999'}\nspec: {nodeName: n1}\n"
	f := &files{ignored: map[string]string{}, dir: write(t, "", map[string]string{"a.yaml": pods})}
	c := made(followed(follower), f)
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

// TestFollowStorm: whatever happens on the way, a follower ends up with the server's state, and versions only increase.
func TestFollowStorm(t *testing.T) {
	servers(t, func(t *testing.T, f *clustertest.Server) {
		keep := &mirror{nodes: map[string]string{}}
		watching(t, f, followed(keep))
		for step := range 200 {
			key := fmt.Sprintf("ns/p%d", step*7%20)
			switch {
			case step%9 == 0:
				f.Apply(kind("podnodes"), key, "")
			case step%50 == 30:
				f.CloseClientConnections()
			case step%50 == 31:
				f.Set(func() { f.Compacted = f.Latest })
			default:
				f.Apply(kind("podnodes"), key, onNode(strconv.Itoa(step)))
			}
		}
		f.Apply(kind("podnodes"), "ns/last", onNode("n"))
		clustertest.Eventually(t, "the server's state", func() bool { return keep.like(f) })
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

func (m *mirror) Replace(all iter.Seq[Object], version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = map[string]string{}
	for s := range all {
		m.nodes[s.Key] = s.Kept.(*podNode).node
	}
	m.reach(version)
}

func (m *mirror) Put(s Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes[s.Key] = s.Kept.(*podNode).node
	m.reach(s.Version)
}

func (m *mirror) Remove(s Object) {
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

// like reports whether the mirror has the same pods as the server.
func (m *mirror) like(f *clustertest.Server) (same bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.Set(func() {
		same = len(f.Stored["pods"]) == len(m.nodes)
		for key, raw := range f.Stored["pods"] {
			same = same && strings.Contains(string(raw), `"nodeName":"`+m.nodes[key]+`"`)
		}
	})
	return same
}
