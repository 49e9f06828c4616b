package collections

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/clustertest"
	"usher.dev/usher/test/growth"
)

func TestNodeQuestions(t *testing.T) {
	s, _ := samples(t, "nodemetrics", "podrequests")
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
}

// These queries do not wait: before the first list, known is false.
func TestNodeQuestionsDoNotWait(t *testing.T) {
	s := notListed(t, "nodemetrics", "podrequests")
	if _, known := s.NodeMetric("n"); known {
		t.Error("a metric")
	}
	if _, known := s.NodeRequests("n"); known {
		t.Error("requests")
	}
}

// keptPod returns what is kept of a pod p, given as JSON without its name.
func keptPod(t *testing.T, namespace, raw string) (Questions, *quota.Pod) {
	t.Helper()
	s, c, err := inFiles(t, string(clustertest.WithVersion(podRequests, namespace+"/p", raw, 1)), "podrequests")
	if err != nil {
		t.Fatal(err)
	}
	kept, known, err := PodRequests.Find(c.Now(), namespace+"/p")
	if !known || err != nil {
		t.Fatal(known, err)
	}
	return s, kept
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
		s, kept := keptPod(t, "default", raw)
		onNode, _ := s.NodeRequests("n")
		if got := fmt.Sprint(kept.Node, " ", kept.Requests.Cpu(), " ", kept.Requests.Memory(), " ", len(kept.Requests), "; ",
			onNode.Cpu(), " ", onNode.Memory()); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// TestEndedOnNode: a pod that has ended requests nothing of its node, whatever was kept of it.
func TestEndedOnNode(t *testing.T) {
	s, kept := keptPod(t, "default", `{"spec":{"nodeName":"n","containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`)
	kept.Ended = true
	if requests, known := s.NodeRequests("n"); !known || len(requests) > 0 {
		t.Errorf("%v %v", requests, known)
	}
}

// TestKeepPodWhole: everything that quota.PodOf reads is decoded.
func TestKeepPodWhole(t *testing.T) {
	_, got := keptPod(t, "ns", `{"metadata":{"uid":"u","labels":{"quota.scheduling.koordinator.sh/name":"q"},
		"annotations":{"pod.koordinator.sh/replace-resources":"gpu:"},"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30},
		"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1","gpu":"1"}}}],"overhead":{"cpu":"1"}}}`)
	gone := got.Gone().UTC().Format(time.RFC3339)
	_, replaced := got.Special.Replaced["gpu"]
	if got.Namespace != "ns" || got.Name != "p" || got.UID != "u" || got.Label != "q" || !got.Labelled || gone != "2026-01-01T00:00:30Z" ||
		got.Special.Overhead.Cpu().String() != "1" || got.Requests.Cpu().String() != "2" || got.Special.Replaced.Cpu().String() != "2" || replaced {
		t.Errorf("%+v", got)
	}
}

// TestKeepPodStatus: everything of the status that quota.PodOf reads is decoded.
func TestKeepPodStatus(t *testing.T) {
	const spec = `"metadata":{"generation":6},"spec":{"nodeName":"n","containers":[{"name":"c","resources":{"requests":{"cpu":"9"}}}]`
	for status, want := range map[string]string{
		``: "none unreported",
		`"containerStatuses":[{"name":"c","allocatedResources":{"cpu":"9"}}]`:                                                                                         "none",
		`"containerStatuses":[{"name":"c","allocatedResources":{"cpu":"9"},"resources":{"requests":{"cpu":"10"}}}]`:                                                   "10",
		`"initContainerStatuses":[{"name":"c","allocatedResources":{"cpu":"11"}}]`:                                                                                    "11",
		`"containerStatuses":[{"name":"c","allocatedResources":{"cpu":"2"}}],"conditions":[{"type":"PodResizePending","reason":"Infeasible","observedGeneration":5}]`: "2 unsettled",
		`"containerStatuses":[{"name":"c","allocatedResources":{"cpu":"2"}}],"observedGeneration":6,` +
			`"conditions":[{"type":"PodResizePending","reason":"Infeasible","observedGeneration":5}]`: "2",
	} {
		_, p := keptPod(t, "ns", `{`+spec+`},"status":{`+status+`}}`)
		got := "none"
		if p.Held != nil {
			if got = p.Held.Requests.Cpu().String(); p.Held.Unsettled {
				got += " unsettled"
			}
		}
		if p.Unreported {
			got += " unreported"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", status, got, want)
		}
	}
}

// TestHostilePod: no file makes usher compute for minutes.
func TestHostilePod(t *testing.T) {
	for _, spec := range []string{`"containers":[{"resources":{"requests":{"cpu":"1e-99999999"}}}]`, `"overhead":{"cpu":"1e-99999999"}`,
		`"initContainers":[{"resources":{"requests":{"cpu":"1e-99999999"}}}]`, `"resources":{"requests":{"cpu":"1e-99999999"}}`} {
		if _, _, err := inFiles(t, clustertest.WithVersion(podRequests, "ns/p", "{\"spec\":{"+spec+"}}", 1), "podrequests"); err == nil {
			t.Errorf("%s is read", spec)
		}
	}
	const hostile = `"requests":{"cpu":"1"}}}]},"status":{"containerStatuses":[{"name":"c","allocatedResources":{"cpu":"1e-99999999"}}]}}`
	if _, p := keptPod(t, "ns", `{"spec":{"containers":[{"name":"c","resources":{`+hostile); p.Held != nil {
		t.Errorf("a status that no API server stores counts for %v", p.Held)
	}
}

// TestHostileStatus: a status with many entries costs no more than in proportion to their number.
func TestHostileStatus(t *testing.T) {
	growth.WantLinear(t, 1<<10, func(n int) func() {
		var containers, statuses []string
		for i := range n {
			containers = append(containers, fmt.Sprintf(`{"name":"c%d","resources":{"requests":{"cpu":"1"}}}`, i%16))
			statuses = append(statuses, fmt.Sprintf(`{"name":"x%d","allocatedResources":{"cpu":"%d"}}`, i, i))
		}
		raw := fmt.Appendf(nil, `{"spec":{"nodeName":"n","containers":[%s]},"status":{"containerStatuses":[%s]}}`, strings.Join(containers, ","), strings.Join(statuses, ","))
		return func() { watchedPod(t, raw) }
	})
}

// manyPods returns the queries of a cluster with 100,000 pods.
func manyPods(b *testing.B) Questions {
	b.Helper()
	var manifest strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&manifest, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod-%d\",\"uid\":\"%d\"},"+
			"\"spec\":{\"nodeName\":\"n%d\",\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}}}]}}\n---\n", i, i, i%1000)
	}
	s, _, err := inFiles(b, manifest.String(), "podrequests")
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func BenchmarkNodeRequests(b *testing.B) {
	s := manyPods(b)
	for b.Loop() {
		if r, ok := s.NodeRequests("n1"); !ok || r.Cpu().Value() != 100 {
			b.Fatal(r)
		}
	}
}

// BenchmarkPodRequestsMemory reports the bytes that one kept pod takes.
func BenchmarkPodRequestsMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := manyPods(b)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/100_000, "B/pod")
		runtime.KeepAlive(s)
	}
}
