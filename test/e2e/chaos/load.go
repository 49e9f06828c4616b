package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// The two namespaces in which pods are created: in the first usher is registered with failurePolicy Fail, in the second
// with Ignore.
const failing, ignoring = "chaos-fail", "chaos-ignore"

// clients is the number of clients that create pods in each namespace, one every pace.
const (
	clients = 4
	pace    = 20 * time.Millisecond
)

// outcome describes how a request ended.
type outcome int

const (
	seated   outcome = iota // stored as usher changes it
	skipped                 // stored without usher
	refused                 // not stored because usher was not reached
	unserved                // not answered by the API server, for a reason of its own
)

// record is a request: when it ended, and how.
type record struct {
	began, ended time.Time
	namespace    string
	outcome      outcome
	err          error
}

// load creates pods in both namespaces until it is stopped.
type load struct {
	stop    context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	all []record
}

// startLoad starts the clients. If store is not set, they create pods as a dry run, which calls the webhooks all the same.
func (w *world) startLoad(ctx context.Context, store bool) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{stop: stop}
	for _, namespace := range []string{failing, ignoring} {
		for client := range clients {
			l.running.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					l.keep(ctx, w.create(ctx, namespace, fmt.Sprintf("pod-%d-%d-%d", w.round, client, n), store))
					kubetest.Pause(ctx, pace)
				}
			})
		}
	}
	return l
}

// keep keeps a record, unless the load was stopped meanwhile.
func (l *load) keep(ctx context.Context, r record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.all = append(l.all, r)
	}
}

// end stops the clients and returns all records.
func (l *load) end() []record {
	l.stop()
	l.running.Wait()
	return l.all
}

// create creates a pod, and says how that ended.
func (w *world) create(ctx context.Context, namespace, name string, store bool) record {
	path := "/api/v1/namespaces/" + namespace + "/pods"
	if !store {
		path += "?dryRun=All"
	}
	r := record{began: time.Now(), namespace: namespace}
	pod, err := w.admin.Create(ctx, path, podNamed(name))
	r.ended, r.err = time.Now(), err
	switch {
	case err == nil && pod.String("spec", "containers", 0, "env", 0, "name") == "KUBE":
		r.outcome = seated
	case err == nil:
		r.outcome = skipped
	default:
		r.outcome = outcomeOf(err)
	}
	return r
}

// outcomeOf tells a call of usher that failed from a failure of the API server.
func outcomeOf(err error) outcome {
	var answer *kubetest.StatusError
	if errors.As(err, &answer) && strings.Contains(answer.Message, "webhook") {
		return refused
	}
	return unserved
}

// podNamed returns a pod that no node runs.
func podNamed(name string) kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": name},
		"spec": kubetest.Object{"schedulerName": "none", "containers": []kubetest.Object{{"name": "c", "image": "pause"}}}}
}
