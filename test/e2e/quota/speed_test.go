package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/e2e/kubetest"
)

// TestSoakSpeed measures the cost of the ledger: clients create pods in one quota, without quotas, with the ledger, with
// grants, and with one compare-and-swap for each pod. The ways alternate in one run, so that other load on the machine affects
// all of them; only the replicas of one way run at a time. The test asserts nothing about time.
func TestSoakSpeed(t *testing.T) {
	soakTime(t)
	ctx := cluster.Within(t, 20*time.Minute)
	grow(ctx, t, "speed", newQuota("speed", "speed-top", "", "100000", true), newQuota("speed", "speed-leaf", "speed-top", "100000", false),
		newQuota("speed", "speed-plain", "speed-top", "100000", false))
	without, alone := another(ctx, t, "usher-without", replicas(), ""), another(ctx, t, "usher-alone", 1, gates)
	grants := another(ctx, t, "usher-grants", replicas(), granting)
	t.Cleanup(func() {
		front.instead.Store(nil)
		stored(t, front.lead(usher))
		run(context.Background(), t, usher)
	})
	all := []*kubetest.Usher{usher, without, alone, grants}
	compare(ctx, t, all, 32, []*way{
		{name: "without quotas", through: without, first: replicas()},
		{name: "with the ledger", through: usher, first: replicas()},
		{name: "with grants", through: grants, first: replicas()},
		{name: "the same ledger, one replica", through: alone, first: 1},
		{name: "one PUT for each pod", through: without, first: replicas(), instead: newPlainLedgers(replicas())},
	})
	for _, clients := range []int{128, 500} {
		compare(ctx, t, all, clients, []*way{
			{name: "without quotas", through: without, first: replicas()},
			{name: "with the ledger", through: usher, first: replicas()},
			{name: "with grants", through: grants, first: replicas()},
		})
	}
	t.Logf("one PUT for each pod: %d conflicts", conflicts.Load())
}

// compare measures some ways in turn, and prints the results beside the first of them.
func compare(ctx context.Context, t *testing.T, all []*kubetest.Usher, clients int, ways []*way) {
	t.Helper()
	for range 4 {
		for _, w := range ways {
			for _, u := range all {
				if u != w.through {
					stop(u)
				}
			}
			w.measure(ctx, t, max(1000, 2*clients), clients)
		}
	}
	for _, w := range ways {
		t.Logf("%d clients: %s", clients, w.told(ways[0]))
	}
}

// another starts an usher that evaluates quotas if gates say so. It gets no reviews yet.
func another(ctx context.Context, t *testing.T, name string, replicas int, gates string) *kubetest.Usher {
	t.Helper()
	flags := []string{"--cluster=api", "--kubeconfig=" + cluster.Dir() + "/" + usherUser + ".kubeconfig", "--quota-reservation-expiry=" + expiry.String()}
	if gates != "" {
		flags = append(flags, "--feature-gates="+gates)
	}
	u, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: name, Replicas: replicas, Flags: flags})
	stored(t, err)
	t.Cleanup(u.Stop)
	return u
}

// run starts the replicas of an usher that do not run, and waits until they are ready.
func run(ctx context.Context, t *testing.T, u *kubetest.Usher) {
	t.Helper()
	for _, r := range u.Replicas {
		if !r.Process().Running() {
			stored(t, r.Start(ctx))
		}
	}
	eventually(ctx, t, func(ctx context.Context) error {
		for i, r := range u.Replicas {
			if err := r.Ready(ctx); err != nil {
				return err
			}
			if !u.Balancer.IsReady(i) {
				return fmt.Errorf("%s gets no reviews yet", r.Name)
			}
		}
		return nil
	})
}

// stop ends the replicas of an usher.
func stop(u *kubetest.Usher) {
	for _, r := range u.Replicas {
		if r.Process().Running() {
			r.Kill()
		}
	}
}

// way is one of those that TestSoakSpeed compares, with what it took.
type way struct {
	name    string
	through *kubetest.Usher
	first   int // so many of its replicas get reviews
	instead func(context.Context, *admissionv1.AdmissionRequest) error

	pods   int
	rates  []float64
	counts map[string]int // of the ledger
	cpu    map[string]float64
}

// measure creates pods this way.
func (w *way) measure(ctx context.Context, t *testing.T, pods, clients int) {
	t.Helper()
	run(ctx, t, w.through)
	stored(t, front.leadToFirst(w.through, w.first))
	front.instead.Store(nil)
	if w.instead != nil {
		front.instead.Store(&w.instead)
	}
	if w.counts == nil {
		w.counts, w.cpu = map[string]int{}, map[string]float64{}
	}
	w.add(ctx, t, -1)
	w.rates, w.pods = append(w.rates, rate(ctx, t, pods, clients)), w.pods+pods
	w.add(ctx, t, 1)
	if _, err := cluster.Admin().Delete(ctx, podPath("speed", "")); err != nil {
		t.Error(err)
	}
	pause(ctx, time.Second) // until the watches have brought it
}

// add adds what was counted and used so far, or subtracts it.
func (w *way) add(ctx context.Context, t *testing.T, sign int) {
	t.Helper()
	for _, r := range w.through.Replicas {
		for name, n := range countsOf(ctx, r) {
			w.counts[name] += sign * n
		}
		w.use(t, "usher", r.Process(), sign)
	}
	w.use(t, "API server", cluster.APIServer(), sign)
	w.use(t, "etcd", cluster.Etcd(), sign)
}

func (w *way) use(t *testing.T, name string, p *kubetest.Process, sign int) {
	t.Helper()
	used, err := kubetest.CPUTime(p.Pid())
	stored(t, err)
	w.cpu[name] += float64(sign) * used
}

// middle returns the median of the rates.
func (w *way) middle() float64 {
	slices.Sort(w.rates)
	n := len(w.rates)
	return (w.rates[(n-1)/2] + w.rates[n/2]) / 2
}

// told returns the results on one line: the rate, next to another way's, and the cost of each pod.
func (w *way) told(beside *way) string {
	text := fmt.Sprintf("%-30s %.2f, %4.0f pods/s (%.0f to %.0f); each pod:", w.name, w.middle()/beside.middle(), w.middle(), w.rates[0], w.rates[len(w.rates)-1])
	for _, name := range slices.Sorted(maps.Keys(w.cpu)) {
		text += fmt.Sprintf(" %s %.1f ms,", name, w.cpu[name]/1000/float64(w.pods))
	}
	for _, name := range slices.Sorted(maps.Keys(w.counts)) {
		if n := w.counts[name]; n != 0 {
			text += fmt.Sprintf(" %s %.3f", name, float64(n)/float64(w.pods))
		}
	}
	return text
}

// rate creates pods and returns the number of pods per second.
func rate(ctx context.Context, t *testing.T, pods, clients int) float64 {
	t.Helper()
	var begun atomic.Int64
	var failed atomic.Value
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			for n := begun.Add(1); n <= int64(pods); n = begun.Add(1) {
				if err := createPod(ctx, "speed", fmt.Sprintf("p-%d", n), "speed-leaf", "100m"); err != nil {
					failed.Store(err)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		t.Error(err)
	}
	return float64(pods) / took.Seconds()
}

// plainLedger is a replica that writes once for each pod, one after the other, and reads only after a conflict, which
// is the fastest form of this design.
type plainLedger struct {
	mu      sync.Mutex
	version string
}

var conflicts atomic.Int64

// newPlainLedgers returns replicas; each review goes to any of them.
func newPlainLedgers(n int) func(context.Context, *admissionv1.AdmissionRequest) error {
	all := make([]plainLedger, n)
	return func(ctx context.Context, r *admissionv1.AdmissionRequest) error {
		return all[rand.IntN(n)].take(ctx, string(r.UID))
	}
}

func (l *plainLedger) take(ctx context.Context, uid string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := quotaPath("speed", "speed-plain")
	for ctx.Err() == nil {
		patch := kubetest.Object{"metadata": kubetest.Object{"resourceVersion": l.version, "annotations": kubetest.Object{recordOf: uid}}}
		object, err := kubetest.Object(nil), error(nil)
		if l.version == "" {
			object, err = ledgerUser().Get(ctx, path)
		} else if object, err = ledgerUser().Patch(ctx, path, kubetest.MergePatch, patch); err == nil {
			l.version = object.String("metadata", "resourceVersion")
			return nil
		}
		var refused *kubetest.StatusError
		if errors.As(err, &refused) && refused.Code == 409 {
			conflicts.Add(1)
			object, err = ledgerUser().Get(ctx, path)
		}
		if err != nil {
			return err
		}
		l.version = object.String("metadata", "resourceVersion")
	}
	return ctx.Err()
}

// ledgerUser is usher's user at the API server, which does not call usher for its writes.
var ledgerUser = sync.OnceValue(func() *kubetest.Client { return cluster.User(usherUser) })
