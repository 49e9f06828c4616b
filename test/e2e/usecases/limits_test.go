package usecases

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestLimits: a user who creates pods in a loop is slowed down to what the limit allows. A user beside them is refused nothing, and neither is a kubelet.
func TestLimits(t *testing.T) {
	const perSecond, burst = 3, 3
	ctx := cluster.Within(t, time.Minute)
	namespace(ctx, t, "limited", nil, nil)
	useText(ctx, t, fmt.Sprintf(`names: {denied: [offensive]}
env: [{name: KUBE, value: "true"}]
overcommit: {pools: [{name: default, selector: {}, ratios: {cpu: "2"}}]}
limits: [{name: makers, by: user, routes: [/mutate-pods], perSecond: %d, burst: %d, exemptUsers: [admin]}]
`, perSecond, burst))
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "beats", "labels": {"admission-webhook": "enabled"}}}`)
	work, stop := context.WithTimeout(ctx, 8*time.Second)
	defer stop()
	began := time.Now()
	noisy, quiet, beats := &tries{}, &tries{}, &tries{}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() { noisy.keepOn(work, 0, func() error { return createAs(ctx, "noisy") }) })
	}
	all.Go(func() { quiet.keepOn(work, 700*time.Millisecond, func() error { return createAs(ctx, "quiet") }) })
	all.Go(func() {
		beats.keepOn(work, 200*time.Millisecond, func() error {
			_, err := cluster.Node("beats").Patch(ctx, "/api/v1/nodes/beats/status", kubetest.MergePatch,
				`{"status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}}`)
			return err
		})
	})
	all.Wait()
	most := burst + int(time.Since(began).Seconds()*perSecond) + 1
	if noisy.done < burst || noisy.done > most || noisy.failed == 0 {
		t.Errorf("the noisy user: %d created, %d refused; want %d to %d created, and some refused", noisy.done, noisy.failed, burst, most)
	}
	if quiet.failed > 0 || quiet.done < 5 || beats.failed > 0 || beats.done < 10 {
		t.Errorf("the quiet user: %+v, the kubelet: %+v; want no failure", quiet, beats)
	}
	_, metrics, err := usher.Replicas[0].Get(ctx, "/metrics")
	if err != nil || !strings.Contains(metrics, `outcome="limited",route="/mutate-pods"`) || strings.Contains(metrics, `usher_limit_exceeded_total{limit="makers"} 0`) {
		t.Errorf("%v: the metrics do not count it", err)
	}
	t.Logf("noisy: %d created, %d refused; quiet: %d created", noisy.done, noisy.failed, quiet.done)
}

// TestLimitWithoutHope: a review that would wait longer than its timeout is refused at once, with a text that says why.
func TestLimitWithoutHope(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	namespace(ctx, t, "limited", nil, nil)
	useText(ctx, t, `{env: [{name: KUBE, value: "true"}], limits: [{name: rare, by: user, perSecond: 0.001, burst: 1, exemptUsers: [admin]}]}`)
	if err := createAs(ctx, "rare"); err != nil {
		t.Fatal(err)
	}
	kubetest.RefusedWith(t, createAs(ctx, "rare"), "the server has received too many requests and has asked us to try again later")
}

// createAs creates a pod as a dry run.
func createAs(ctx context.Context, user string) error {
	_, err := cluster.User(user, "system:masters").Create(ctx, "/api/v1/namespaces/limited/pods?dryRun=All", kubetest.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"generateName": "a-"},
		"spec": kubetest.Object{"containers": []any{kubetest.Object{"name": "a", "image": "a"}}},
	})
	return err
}

// tries counts what was tried.
type tries struct {
	mu           sync.Mutex
	done, failed int
	last         error
}

// keepOn calls try again and again until ctx ends.
func (s *tries) keepOn(ctx context.Context, pause time.Duration, try func() error) {
	for ctx.Err() == nil {
		err := try()
		s.mu.Lock()
		if err != nil {
			s.failed, s.last = s.failed+1, err
		} else {
			s.done++
		}
		s.mu.Unlock()
		time.Sleep(pause)
	}
}
