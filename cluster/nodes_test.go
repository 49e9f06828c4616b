package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

func TestKeepRequest(t *testing.T) {
	const spec = `"nodeName":"n","containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi","gpu":"1"}}},{"resources":{"requests":{"cpu":"500m"}}}]`
	for raw, want := range map[string]string{
		`{"spec":{` + spec + `}}`: "n 1500m 1Gi 2",
		`{"spec":{` + spec + `,"initContainers":[{"resources":{"requests":{"cpu":"4"}}},{"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]}}`: "n 4 1Gi 2",
		`{"spec":{` + spec + `,"overhead":{"cpu":"250m"}}}`:                  "n 1750m 1Gi 2",
		`{"spec":{` + spec + `,"resources":{"requests":{"cpu":"3"}}}}`:       "n 3 1Gi 2",
		`{"spec":{` + spec + `},"status":{"phase":"Running"}}`:               "n 1500m 1Gi 2",
		`{"spec":{` + spec + `},"status":{"phase":"Succeeded"}}`:             " 0 0 0",
		`{"spec":{` + spec + `},"status":{"phase":"Failed"}}`:                " 0 0 0",
		`{"spec":{` + strings.Replace(spec, `"nodeName":"n",`, "", 1) + `}}`: " 0 0 0",
		`{"spec":{"nodeName":"n"}}`:                                          "n 0 0 0",
	} {
		i := event{PodRequests, "default/p", raw}.item(t)
		kept := i.kept.(*podRequest)
		if got := fmt.Sprint(kept.node, " ", kept.requests.Cpu(), " ", kept.requests.Memory(), " ", len(kept.requests)); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
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
