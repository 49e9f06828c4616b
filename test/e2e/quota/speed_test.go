package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/e2e/kubetest"
)

// TestSoakSpeed measures the cost of the ledger: 32 clients create pods in one quota, without quotas, with the ledger,
// and with one compare-and-swap for each pod. The three alternate in one run, so that other load on the machine affects
// all of them. The test asserts nothing about time.
func TestSoakSpeed(t *testing.T) {
	soakTime(t)
	ctx := cluster.Within(t, 20*time.Minute)
	grow(ctx, t, "speed", newQuota("speed", "speed-top", "", "100000", true), newQuota("speed", "speed-leaf", "speed-top", "100000", false),
		newQuota("speed", "speed-plain", "speed-top", "100000", false))
	without, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "usher-without", Replicas: replicas(),
		Flags: []string{"--cluster=api", "--kubeconfig=" + cluster.Dir() + "/" + usherUser + ".kubeconfig"}})
	stored(t, err)
	t.Cleanup(without.Stop)
	t.Cleanup(func() { front.instead.Store(nil); stored(t, front.lead(usher)) })
	plain := newPlainLedgers(replicas())
	ways := []struct {
		name    string
		through *kubetest.Usher
		instead func(context.Context, *admissionv1.AdmissionRequest) error
	}{{"without quotas", without, nil}, {"with the ledger", usher, nil}, {"one PUT for each pod", without, plain}}
	took := make([][]float64, len(ways))
	for range 4 {
		for i, way := range ways {
			stored(t, front.lead(way.through))
			front.instead.Store(nil)
			if way.instead != nil {
				front.instead.Store(&way.instead)
			}
			took[i] = append(took[i], rate(ctx, t, 400, 32))
		}
	}
	for i, way := range ways {
		slices.Sort(took[i])
		middle := (took[i][1] + took[i][2]) / 2
		t.Logf("%-22s %4.0f pods/s (%.0f to %.0f), %.2f of that without", way.name, middle, took[i][0], took[i][3], middle/((took[0][1]+took[0][2])/2))
	}
	for _, r := range usher.Replicas {
		t.Logf("%s wrote records: %v", r.Name, writesOf(ctx, r))
	}
	t.Logf("one PUT for each pod: %d conflicts", conflicts.Load())
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
	if _, err := cluster.Admin().Delete(ctx, podPath("speed", "")); err != nil {
		t.Error(err)
	}
	settled(ctx, t, "speed-leaf", "0")
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
