package routing

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// leastRequests is the number of pods that are created, unless USHER_ROUTING_REQUESTS says another.
const leastRequests = 2000

const (
	quotaLabel = "quota.scheduling.koordinator.sh/name"
	tooMuch    = "1000001" // more CPUs than the quota has
)

// TestUnderLoad: pods of one quota are created while each replica drains and comes back, certificates and their CA are
// replaced. None fails, each replica has answered, and the quota still holds.
func TestUnderLoad(t *testing.T) {
	wanted := requests(t)
	ctx := cluster.Within(t, 10*time.Minute+time.Duration(wanted)*50*time.Millisecond)
	createQuota(ctx, t)
	l := startLoad(ctx)
	rounds := 0
	for began := time.Now(); rounds == 0 || l.sent.Load() < int64(wanted); rounds++ {
		act(ctx, t, rounds)
		t.Logf("%s: %d rounds, %d pods%s", time.Since(began).Round(time.Second), rounds+1, l.sent.Load(), l.counts.String())
		if ctx.Err() != nil || t.Failed() {
			break
		}
	}
	l.stop()
	if failed := l.counts.All(); len(failed) > 0 || l.sent.Load() < int64(wanted) {
		t.Errorf("of %d pods none must fail, and %d are needed:%s", l.sent.Load(), wanted, l.counts.String())
	}
	for _, r := range usher.Replicas {
		if n := counter(ctx, t, r, "usher_review_duration_seconds_count"); n == 0 {
			t.Errorf("%s has answered nothing since it started", r.Name)
		}
	}
	_, err := cluster.Admin().Create(ctx, podsPath, pod("too-much", tooMuch))
	kubetest.RefusedWith(t, err, "quota")
	t.Logf("%d pods from %d clients, %d rounds of drains and rotations", l.sent.Load(), clients, rounds)
}

func requests(t *testing.T) int {
	text := os.Getenv("USHER_ROUTING_REQUESTS")
	if text == "" {
		return leastRequests
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("USHER_ROUTING_REQUESTS=%s: must be a number of pods", text)
	}
	return n
}

// act drains each replica, and replaces the certificates in between; every third time with their CA.
func act(ctx context.Context, t *testing.T, round int) {
	t.Helper()
	for _, r := range usher.Replicas {
		if err := r.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if err := usher.Balancer.Wait(ctx, len(usher.Replicas)); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"certs", "rotate", "--kubeconfig=" + cluster.AdminKubeconfig()}
	if round%3 == 0 {
		args = append(args, "--ca")
	}
	if err := rotate(ctx, args); err != nil {
		t.Error(err)
	}
}

// rotate replaces certificates, and runs the command again as long as it asks for that: replicas renew theirs at the same time.
func rotate(ctx context.Context, args []string) error {
	for {
		out, err := usher.Run(ctx, args...)
		if err == nil || ctx.Err() != nil || !strings.Contains(fmt.Sprint(err, out), "run the command again") {
			return err
		}
	}
}

// load creates and removes pods.
type load struct {
	sent   atomic.Int64
	counts kubetest.Counts // of failures
	stop   func()
}

func startLoad(ctx context.Context) *load {
	l := &load{}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.one(ctx, fmt.Sprintf("load-%d-%d", i, n))
			}
		})
	}
	l.stop = func() { cancel(); running.Wait() }
	return l
}

// one creates a pod and removes it. What a webhook says is what matters: its failure is in the answer.
func (l *load) one(ctx context.Context, name string) {
	_, err := cluster.Admin().Create(ctx, podsPath, pod(name, "1"))
	if ctx.Err() != nil {
		return
	}
	l.sent.Add(1)
	if err != nil {
		l.counts.Add(err.Error(), 1)
		return
	}
	if _, err := cluster.Admin().Delete(ctx, podsPath+"/"+name); err != nil && ctx.Err() == nil {
		l.counts.Add("delete: "+err.Error(), 1)
	}
}

const podsPath = "/api/v1/namespaces/load/pods"

func pod(name, cpu string) kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": kubetest.Object{"name": name, "labels": kubetest.Object{quotaLabel: "load"}},
		"spec": kubetest.Object{"containers": []kubetest.Object{{"name": "c", "image": "registry.example.com/load:1",
			"resources": kubetest.Object{"requests": kubetest.Object{"cpu": cpu}}}}}}
}

// createQuota creates the quota of all pods, and waits until every replica refuses what is beyond it.
func createQuota(ctx context.Context, t *testing.T) {
	t.Helper()
	cluster.MustApply(ctx, t, `{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "load", "namespace": "load",
		"labels": {"quota.scheduling.koordinator.sh/is-parent": "false"}}, "spec": {"max": {"cpu": "1000000"}, "min": {}}}`)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		for range 20 { // each is judged by another replica
			_, err := cluster.Admin().Create(ctx, podsPath+"?dryRun=All", pod("too-much", tooMuch))
			if err == nil || !strings.Contains(err.Error(), "quota") {
				return fmt.Errorf("a replica does not know the quota: %v", err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// counter returns the sum of a replica's counters of that name.
func counter(ctx context.Context, t *testing.T, r *kubetest.Replica, name string) (sum int) {
	t.Helper()
	_, metrics, err := r.Get(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^`+name+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(metrics, -1) {
		value, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += int(value)
	}
	return sum
}
