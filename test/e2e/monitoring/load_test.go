package monitoring

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// policy has something for each panel: steps that deny, would deny and would change, an override, and a limit.
const policy = `
names: {denied: [offensive]}
lifespan: {label: acme.com/lifespan-requested, taint: acme.com/lifespan-remaining, max: 14}
env: [{name: KUBE, value: "true"}]
labelDefaults: [{labels: [{key: acme.com/tier, value: standard}]}]
labelRules: [{name: team, label: acme.com/team, required: true}]
overcommit: {pools: [{name: default, selector: {}, ratios: {cpu: "2"}, maxRatio: "4", capacity: keep}]}
modes: {label-rules: dryrun, label-defaults: dryrun}
limits: [{name: namespaces, by: namespace, perSecond: 1, burst: 1, mode: log}]
overrides:
- {name: old-names, steps: [denied-names], namespaces: [lenient], mode: warn, until: 2099-12-31, reason: a test}
`

const quotas = `{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
	"metadata": {"name": "team", "namespace": "strict", "labels": {"quota.scheduling.koordinator.sh/is-parent": "false"}}, "spec": {"max": {"cpu": "1000"}, "min": {}}}`

const heartbeat = `{"status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
	"allocatable": {"cpu": "15900m", "memory": "62Gi", "pods": "110"}}}`

// prepare creates the namespaces, the quota and the nodes of the load.
func prepare(ctx context.Context, t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	for _, name := range []string{"strict", "lenient"} {
		c.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace",
			"metadata": {"name": %q, "labels": {"admission-webhook": "enabled"}}}`, name))
	}
	for i := range 3 {
		c.MustApply(ctx, t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node",
			"metadata": {"name": "node-%d", "labels": {"admission-webhook": "enabled"}}}`, i))
	}
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error { return c.Apply(ctx, quotas) }); err != nil {
		t.Fatal(err)
	}
}

// load is clients that create pods, and nodes that send heartbeats.
type load struct {
	cluster *kubetest.Cluster
	counts  kubetest.Counts
	running sync.WaitGroup
	stop    context.CancelFunc
}

func startLoad(ctx context.Context, c *kubetest.Cluster) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{cluster: c, stop: stop}
	for client := range 4 {
		l.running.Go(func() { l.createPods(ctx, client) })
	}
	l.running.Go(func() { l.beat(ctx) })
	return l
}

// end stops the clients and waits for them.
func (l *load) end() {
	l.stop()
	l.running.Wait()
}

func (l *load) createPods(ctx context.Context, client int) {
	for n := 0; ctx.Err() == nil; n++ {
		namespace, name := "strict", fmt.Sprintf("pod-%d-%d", client, n)
		switch n % 4 {
		case 0:
			name = "offensive-" + name
		case 1:
			namespace, name = "lenient", "offensive-"+name
		}
		_, err := l.cluster.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/pods", pod(name))
		if ctx.Err() == nil {
			l.counts.Add(outcome(err), 1)
		}
		kubetest.Pause(ctx, 20*time.Millisecond)
	}
}

func (l *load) beat(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("node-%d", n%3)
		_, err := l.cluster.Node(name).Patch(ctx, "/api/v1/nodes/"+name+"/status", kubetest.StrategicPatch, heartbeat)
		if ctx.Err() == nil && err != nil {
			l.counts.Add("heartbeat refused: "+err.Error(), 1)
		}
		kubetest.Pause(ctx, 100*time.Millisecond)
	}
}

func pod(name string) kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": kubetest.Object{"name": name, "labels": kubetest.Object{
			"quota.scheduling.koordinator.sh/name": "team", "acme.com/lifespan-requested": "3",
		}},
		"spec": kubetest.Object{"containers": []any{kubetest.Object{"name": "c", "image": "registry.k8s.io/pause:3.10",
			"resources": kubetest.Object{"requests": kubetest.Object{"cpu": "10m"}}}}}}
}

func outcome(err error) string {
	if err == nil {
		return "stored"
	}
	return err.Error()
}
