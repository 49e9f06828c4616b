package cluster

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/clustertest"
)

// TestOneWatch: two collections of the same objects share a watch, of whole objects if one of them needs that, and each keeps,
// tells its followers and reports what it would alone.
func TestOneWatch(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		servers(t, func(t *testing.T, f *clustertest.Server) {
			f.Apply(kind("pods"), "ns/a", `{"metadata":{"labels":{"l":"1"}},"spec":{"nodeName":"n1"}}`)  // 101
			f.Apply(kind("pods"), "ns/bad", `{"metadata":{"labels":{"l":"1"}},"spec":{"nodeName":7}}`)   // 102
			f.Apply(kind("pods"), "ns/gone", `{"metadata":{"labels":{"l":"1"}},"spec":{"nodeName":""}}`) // 103
			follower := &follower{}
			o := followed(follower)
			o.Needs = []string{"pods", "podnodes"}
			o.Catalogue = slices.Clone(o.Catalogue)
			if reversed {
				slices.Reverse(o.Catalogue)
			}
			c := watching(t, f, o)
			clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
			f.Apply(kind("pods"), "ns/a", `{"metadata":{"labels":{"l":"2"}},"spec":{"nodeName":"n1"}}`)   // 104: only of the pods
			f.Apply(kind("pods"), "ns/a", `{"metadata":{"labels":{"l":"2"}},"spec":{"nodeName":"n2"}}`)   // 105: only of their nodes
			f.Apply(kind("pods"), "ns/a", `{"metadata":{"labels":{"l":"3"}},"spec":{"nodeName":[null]}}`) // 106: only of the pods
			f.Apply(kind("pods"), "ns/gone", "")                                                          // 107
			f.Apply(kind("pods"), "ns/late", onNode("n3"))                                                // 108
			all := follower.until(t, "put ns/late@108=n3")
			want := []string{"replace [ns/a@101=n1, ns/bad@102=nil, ns/gone@103=] 103", "put ns/a@104=n1", "put ns/a@105=n2", "put ns/a@106=n2", "remove ns/gone@107=", "put ns/late@108=n3"}
			if !slices.Equal(all, want) {
				t.Errorf("%q\nwant\n%q", all, want)
			}
			clustertest.Eventually(t, "a bookmark", func() bool { return slices.Contains(follower.history(true), "reached 108") })
			wantBoth(t, c, "ns/a=3 n2, ns/bad=1 -, ns/gone=- -, ns/late= n3")
			if n := f.Requests("watch pods"); n > 2 { // one for a streamed list that is not offered
				t.Errorf("the watch of pods began %d times", n)
			}
			f.Set(func() {
				if strings.Contains(f.Accept["pods"], "as=") {
					t.Errorf("only metadata is asked for: %s", f.Accept["pods"])
				}
				f.Refuse["pods"] = http.StatusForbidden
			})
			f.CloseClientConnections()
			clustertest.Eventually(t, "both report the error", func() bool { s := c.Status(); return s[0].Err != nil && s[1].Err != nil })
			f.Set(func() { f.Refuse["pods"] = 0 })
			clustertest.Eventually(t, "both are well", func() bool { s := c.Status(); return s[0].Err == nil && s[1].Err == nil })
			wantBoth(t, c, "ns/a=3 n2, ns/bad=1 -, ns/gone=- -, ns/late= n3")
		})
	}
}

// wantBoth compares what both collections keep of some pods, as key=label node.
func wantBoth(t *testing.T, c *Cluster, want string) {
	t.Helper()
	var all []string
	for _, key := range []string{"ns/a", "ns/bad", "ns/gone", "ns/late"} {
		label, node := "-", "-"
		if pod, known, _ := Pods.Find(c.Now(), key); known {
			label = pod.labels["l"]
		}
		if pod, known, _ := PodNodes.Find(c.Now(), key); known {
			node = pod.node
		}
		all = append(all, fmt.Sprintf("%s=%s %s", key, label, node))
	}
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestStreams: collections share a watch only if the same request brings what they keep.
func TestStreams(t *testing.T) {
	other, one, scattered := *PodNodes, *Pods, *Pods
	other.Name, one.Name, scattered.Name = "other", "one", "scattered"
	one.Only.Name, scattered.Namespaced = "p", false
	declared := []Declared{Pods, Namespaces, &one, &scattered, PodNodes, &other, Nodes}
	c, err := newCatalogue(declared, []string{"pods", "namespaces", "one", "scattered", "podnodes", "other"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.streams()), "[[5 4 0] [1] [2] [3]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// wantSameInStream compares what the collections of a stream make of an object with what each makes of it alone.
func wantSameInStream(t *testing.T, text string) {
	t.Helper()
	pods := *Pods
	pods.Keep = Pods.Keep.Or(func() Shortcut[*podMeta] {
		return func(_ Sent, decode func() (*podMeta, bool)) (*podMeta, bool) { return decode() }
	})
	shared := catalogue{rows: []row{shortNodes(new(int)).row(), pods.row(), PodNodes.row()}}
	alone := []row{PodNodes.row(), Pods.row(), PodNodes.row()}
	all := stream{0, 1, 2}
	linked, err := shared.decode(all, []byte(text))
	if err != nil {
		for k := range alone {
			if _, want := alone[k].decode([]byte(text)); want == nil {
				t.Fatalf("%v: %d reads it alone: %s", err, k, text)
			}
		}
		return
	}
	for k, i := range all.each(linked) {
		want, err := alone[k].decode([]byte(text))
		if err != nil {
			t.Fatalf("%d alone: %v: %s", k, err, text)
		}
		got := *i
		got.beside = nil
		if fmt.Sprint(got.err) != fmt.Sprint(want.err) {
			t.Fatalf("%d: %v, want %v: %s", k, got.err, want.err, text)
		}
		got.err, want.err = nil, nil
		if !reflect.DeepEqual(&got, want) {
			t.Fatalf("%d: %+v, want %+v: %s", k, got, want, text)
		}
	}
}
