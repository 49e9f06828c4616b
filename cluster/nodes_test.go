package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/quota"
)

func TestNodeQuestions(t *testing.T) {
	c, err := Files("../samples/cluster", Options{Kinds: []Kind{NodeMetrics, PodRequests}})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Now()
	metric, known := s.NodeMetric("node-1")
	if !known {
		t.Fatal("no metric of node-1")
	}
	if used, window, ok := metric.P95(corev1.ResourceCPU); !ok || used.String() != "13" || window.Hours() != 24 || metric.Status.UpdateTime == nil {
		t.Errorf("%s in %s, %v", &used, window, ok)
	}
	if _, known := s.NodeMetric("nobody"); known {
		t.Error("a metric of nobody")
	}
	for node, want := range map[string]string{"node-1": "20 48Gi", "nobody": "0 0"} {
		requests, known := s.NodeRequests(node)
		if got := requests.Cpu().String() + " " + requests.Memory().String(); !known || got != want {
			t.Errorf("%s: %s %v, want %s", node, got, known, want)
		}
	}
	if rules := (Options{Kinds: []Kind{Pods, PodRequests}}).Rules(); len(rules) != 1 || len(rules[0].Resources) != 1 {
		t.Errorf("both are pods: %v", rules)
	}
}

// Nobody waits for these: before they were listed they are not known.
func TestNodeQuestionsDoNotWait(t *testing.T) {
	s := newCluster(Options{Kinds: []Kind{NodeMetrics, PodRequests}}, nil).Now()
	if _, known := s.NodeMetric("n"); known {
		t.Error("a metric")
	}
	if _, known := s.NodeRequests("n"); known {
		t.Error("requests")
	}
}

func TestKeepPod(t *testing.T) {
	const spec = `"nodeName":"n","containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi","gpu":"1"}}},{"resources":{"requests":{"cpu":"500m"}}}]`
	for raw, want := range map[string]string{
		`{"spec":{` + spec + `}}`: "n 1500m 1Gi 3; 1500m 1Gi",
		`{"spec":{` + spec + `,"initContainers":[{"resources":{"requests":{"cpu":"4"}}},{"restartPolicy":"Always","resources":{"requests":{"cpu":"3"}}}]}}`: "n 4500m 1Gi 3; 4500m 1Gi",
		`{"spec":{` + spec + `,"overhead":{"cpu":"250m"}}}`:                  "n 1750m 1Gi 3; 1750m 1Gi",
		`{"spec":{` + spec + `,"resources":{"requests":{"cpu":"3"}}}}`:       "n 3 1Gi 3; 3 1Gi",
		`{"spec":{` + spec + `},"status":{"phase":"Running"}}`:               "n 1500m 1Gi 3; 1500m 1Gi",
		`{"spec":{` + spec + `},"status":{"phase":"Succeeded"}}`:             "n 0 0 0; 0 0",
		`{"spec":{` + spec + `},"status":{"phase":"Failed"}}`:                "n 0 0 0; 0 0",
		`{"spec":{` + strings.Replace(spec, `"nodeName":"n",`, "", 1) + `}}`: " 1500m 1Gi 3; 0 0",
		`{"spec":{"nodeName":"n"}}`:                                          "n 0 0 0; 0 0",
	} {
		c := newCluster(Options{Kinds: []Kind{PodRequests}}, nil)
		i := event{PodRequests, "default/p", raw}.item(t)
		_ = (&store{c, PodRequests}).Replace([]any{i}, "1")
		kept := i.kept.(*quota.Pod)
		onNode, _ := c.Now().NodeRequests("n")
		if got := fmt.Sprint(kept.Node, " ", kept.Requests.Cpu(), " ", kept.Requests.Memory(), " ", len(kept.Requests), "; ",
			onNode.Cpu(), " ", onNode.Memory()); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// TestEndedOnNode: a pod that has ended asks its node for nothing, whatever was kept of it.
func TestEndedOnNode(t *testing.T) {
	c := newCluster(Options{Kinds: []Kind{PodRequests}}, nil)
	i := event{PodRequests, "default/p", `{"spec":{"nodeName":"n","containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`}.item(t)
	i.kept.(*quota.Pod).Ended = true
	_ = (&store{c, PodRequests}).Replace([]any{i}, "1")
	if requests, known := c.Now().NodeRequests("n"); !known || len(requests) > 0 {
		t.Errorf("%v %v", requests, known)
	}
}

// TestKeepPodWhole: all that quota.PodOf reads is decoded.
func TestKeepPodWhole(t *testing.T) {
	got := event{PodRequests, "ns/p", `{"metadata":{"uid":"u","labels":{"quota.scheduling.koordinator.sh/name":"q"},
		"annotations":{"pod.koordinator.sh/replace-resources":"gpu:"},"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30},
		"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1","gpu":"1"}}}],"overhead":{"cpu":"1"}}}`}.item(t).kept.(*quota.Pod)
	gone := got.Gone.UTC().Format(time.RFC3339)
	_, replaced := got.Replaced["gpu"]
	if got.Namespace != "ns" || got.Name != "p" || got.UID != "u" || got.Label != "q" || !got.Labelled || gone != "2026-01-01T00:00:30Z" ||
		got.Overhead.Cpu().String() != "1" || got.Requests.Cpu().String() != "2" || got.Replaced.Cpu().String() != "2" || replaced {
		t.Errorf("%+v", got)
	}
}

// TestHostilePod: no file makes usher compute for minutes.
func TestHostilePod(t *testing.T) {
	for _, spec := range []string{`"containers":[{"resources":{"requests":{"cpu":"1e-99999999"}}}]`, `"overhead":{"cpu":"1e-99999999"}`,
		`"initContainers":[{"resources":{"requests":{"cpu":"1e-99999999"}}}]`, `"resources":{"requests":{"cpu":"1e-99999999"}}`} {
		if i := (event{PodRequests, "ns/p", "{\"spec\":{" + spec + "}}"}).item(t); i.err == nil {
			t.Errorf("%s: %+v", spec, i.kept)
		}
	}
}

func BenchmarkNodeRequests(b *testing.B) {
	c := newCluster(Options{Kinds: []Kind{PodRequests}}, nil)
	items := make([]any, 100_000)
	for i := range items {
		items[i] = event{PodRequests, fmt.Sprintf("ns/pod-%d", i), fmt.Sprintf(
			`{"spec":{"nodeName":"n%d","containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`, i%1000)}.item(b)
	}
	_ = (&store{c, PodRequests}).Replace(items, "")
	for b.Loop() {
		if r, ok := c.Now().NodeRequests("n1"); !ok || r.Cpu().Value() != 100 {
			b.Fatal(r)
		}
	}
}
