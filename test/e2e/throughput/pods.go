package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// template is a pod in JSON, around its name.
type template struct{ before, after []byte }

// named returns the pod with a name.
func (t template) named(name string) []byte { return slices.Concat(t.before, []byte(name), t.after) }

// productionPod returns the pod of the sample of that name: three containers with all that a chart sets, as a controller
// creates it. Its review has about 20 KB. All ways create the same pod; the label of the quota means something in one.
func productionPod() (template, error) {
	text, err := kubetest.ReadFile("samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		return template{}, err
	}
	var review kubetest.Object
	if err := json.Unmarshal([]byte(text), &review); err != nil {
		return template{}, err
	}
	pod, _ := review.At("request", "object").(map[string]any)
	const mark = "the-name-of-the-pod"
	meta := pod["metadata"].(map[string]any)
	for _, key := range []string{"generateName", "namespace", "creationTimestamp", "managedFields"} { // set by the API server
		delete(meta, key)
	}
	meta["name"] = mark
	meta["labels"].(map[string]any)[quotaLabel+"name"] = leafQuota
	delete(pod["spec"].(map[string]any), "initContainers")
	delete(pod["spec"].(map[string]any), "priority") // it goes with a PriorityClass
	delete(pod["spec"].(map[string]any), "preemptionPolicy")
	all, err := json.Marshal(pod)
	before, after, _ := bytes.Cut(all, []byte(mark))
	return template{before, after}, err
}

func podsPath(way string) string { return "/api/v1/namespaces/" + namespaceOf(way) + "/pods" }

// result holds the outcome of a round.
type result struct {
	Seconds   float64         `json:"seconds"`
	Latencies []time.Duration `json:"latencies"`       // of what succeeded
	Over1     int             `json:"over1,omitempty"` // requests that took more than 1 s, with those that failed
	Over5     int             `json:"over5,omitempty"` // and more than 5 s
	Failed    int             `json:"failed,omitempty"`
	TimedOut  int             `json:"timedOut,omitempty"` // of those that failed
	Example   string          `json:"example,omitempty"`  // of a failure
	Used      usage           `json:"used,omitempty"`     // per pod, or per second
}

// create lets clients create pods, one after the other each, for some time, and at least so many each.
func (w *world) create(ctx context.Context, way string, clients []*kubetest.Client, lasting time.Duration, least int) result {
	w.serial++
	var mu sync.Mutex
	var all result
	var number atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for _, client := range clients {
		running.Go(func() {
			var own result
			for n := 0; (n < least || time.Since(began) < lasting) && ctx.Err() == nil; n++ {
				sent := time.Now()
				name := fmt.Sprintf("pod-%d-%d", w.serial, number.Add(1))
				err := created(ctx, client, podsPath(way), w.pod.named(name))
				own.add(time.Since(sent), err)
			}
			mu.Lock()
			defer mu.Unlock()
			all.join(own)
		})
	}
	running.Wait()
	all.Seconds = time.Since(began).Seconds()
	return all
}

// created posts an object to its collection.
func created(ctx context.Context, client *kubetest.Client, path string, pod []byte) error {
	answer, err := client.Do(ctx, "POST", path, "application/json", pod)
	if err != nil {
		return err
	}
	return answer.Err()
}

// add adds a request.
func (r *result) add(took time.Duration, err error) {
	r.Over1 += count(took > time.Second)
	r.Over5 += count(took > 5*time.Second)
	if err != nil {
		r.Failed, r.Example = r.Failed+1, err.Error()
		r.TimedOut += count(timedOut.MatchString(r.Example))
		return
	}
	r.Latencies = append(r.Latencies, took)
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// timedOut matches the errors of a request, or of the call of a webhook, that was given up. "timeout=5s" is in the URL of every call.
var timedOut = regexp.MustCompile(`deadline exceeded|Client\.Timeout|handshake timeout|^504 `)

func (r *result) join(other result) {
	r.Latencies = append(r.Latencies, other.Latencies...)
	r.Over1, r.Over5 = r.Over1+other.Over1, r.Over5+other.Over5
	r.Failed, r.TimedOut, r.Example = r.Failed+other.Failed, r.TimedOut+other.TimedOut, cmp.Or(r.Example, other.Example)
}

// podRound is one round of a way with some clients.
type podRound struct {
	Way     string `json:"way"`
	Clients int    `json:"clients"`
	result
}

// createPods makes one round: it verifies that the way is in effect, warms up, measures, and removes the pods.
func (w *world) createPods(ctx context.Context, of way, clients int, p plan) (r podRound, err error) {
	if of.begin != nil {
		if err := of.begin(ctx); err != nil {
			return r, err
		}
	}
	if err := w.verify(ctx, of); err != nil {
		return r, err
	}
	w.create(ctx, of.name, w.clients[:clients], p.warm, 1)
	if r, err = w.measureBurst(ctx, of, w.clients[:clients], p.burst); err != nil {
		return r, err
	}
	if of.end != nil {
		if err := of.end(ctx); err != nil {
			return r, err
		}
	}
	return r, w.clear(ctx, of.name)
}

// measureBurst measures what clients do in some time, at least two pods each: the first ones come all at once.
func (w *world) measureBurst(ctx context.Context, of way, clients []*kubetest.Client, lasting time.Duration) (r podRound, err error) {
	pid := 0
	if of.pid != nil {
		pid = of.pid()
	}
	before, err := w.meter.read(ctx, pid)
	if err != nil {
		return r, err
	}
	r = podRound{of.name, len(clients), w.create(ctx, of.name, clients, lasting, 2)}
	after, err := w.meter.read(ctx, pid)
	if err != nil {
		return r, err
	}
	if len(r.Latencies) == 0 {
		return r, fmt.Errorf("%s, %d clients: no pod was created: %s", of.name, len(clients), r.Example)
	}
	r.Used = after.since(before, float64(len(r.Latencies)))
	return r, nil
}

// clear removes the pods of a way, and etcd's history. A slow machine needs more than the minute that the API server gives a request.
func (w *world) clear(ctx context.Context, way string) error {
	limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	err := kubetest.Eventually(limited, func(ctx context.Context) error {
		_, err := w.admin.Delete(ctx, podsPath(way))
		return err
	})
	if err != nil {
		return err
	}
	return forget(ctx, w.cluster.EtcdURL())
}
