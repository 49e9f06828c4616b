package main

import (
	"context"
	"fmt"
	"strconv"

	"usher.dev/usher/e2e/kubetest"
)

// world is a control plane with usher twice: as `make deploy` installs it, and with both suites, watching the cluster.
type world struct {
	cluster    *kubetest.Cluster
	admin      *kubetest.Client
	core, both *kubetest.Usher

	constantCore, constantBoth *kubetest.Process

	ways     []way
	outcomes map[string]string // what becomes of the pod, by way.like
	pod      template
	clients  []*kubetest.Client
	meter    meter
	nodes    map[bool][]*node // by whether they are amplified
	serial   int              // of the bursts, so that names differ
}

// The ports at which the API server reaches the webhooks, behind one Service.
type ports struct{ core, both, constantCore, constantBoth int }

// controlPlane has an etcd that syncs its log, which tests leave out, and an API server with an audit log of metadata, as
// most clusters have. Nothing limits the requests in flight: API Priority and Fairness would queue 500 clients before
// their pods reach a webhook, and so measure its queue.
var controlPlane = kubetest.Options{AuditLevel: "Metadata", EtcdFlags: []string{"--unsafe-no-fsync=false"}, APIServerFlags: []string{
	"--enable-priority-and-fairness=false", "--max-requests-inflight=5000", "--max-mutating-requests-inflight=5000",
	"--etcd-compaction-interval=0", "--delete-collection-workers=8"}}

// start starts everything.
func start(ctx context.Context, clients int) (*world, error) {
	c, err := kubetest.Start(ctx, controlPlane)
	if err != nil {
		return nil, err
	}
	w := &world{cluster: c, admin: c.Admin(), outcomes: map[string]string{}, nodes: map[bool][]*node{}, meter: meter{c.APIServer().Pid(), c.Etcd().Pid(), c.EtcdURL()}}
	if err := w.begin(ctx, clients); err != nil {
		_ = c.Stop()
		return nil, fmt.Errorf("%w\n%s", err, c.Logs(10))
	}
	return w, nil
}

func (w *world) begin(ctx context.Context, clients int) (err error) {
	if w.pod, err = productionPod(); err != nil {
		return err
	}
	if err := w.cluster.Apply(ctx, objects()); err != nil {
		return err
	}
	for i := range clients {
		w.clients = append(w.clients, w.cluster.User(fmt.Sprintf("client-%d", i), clientGroup)) // each its certificate, and so its connection
	}
	var at ports
	for _, port := range []*int{&at.core, &at.both, &at.constantCore, &at.constantBoth} {
		if *port, err = kubetest.FreePort(); err != nil {
			return err
		}
	}
	if err := w.startUshers(ctx, at); err != nil {
		return err
	}
	if err := w.startConstants(ctx, at); err != nil {
		return err
	}
	if err := w.both.Replicas[0].Terminate(ctx); err != nil {
		return err
	}
	return w.registerAll(ctx, at)
}

// gates are the feature gates of usher with both suites.
const gates = "--feature-gates=EnableQuotaAdmission=true,EnableQuotaAdmissionOnUpdate=true"

const suites = "--suite=core,colocation"

// asDeployed is the memory limit of the shipped Deployment, which also decides how often usher collects garbage.
var asDeployed = []string{"GOMEMLIMIT=204MiB"}

// startUshers starts usher, and usher with both suites, which gives the patches of its constant webhook.
func (w *world) startUshers(ctx context.Context, at ports) (err error) {
	if w.core, err = w.cluster.StartUsher(ctx, kubetest.UsherOptions{Env: asDeployed, Flags: []string{listenAt(at.core)}}); err != nil {
		return err
	}
	if err := w.addColocation(ctx); err != nil {
		return err
	}
	account, err := w.cluster.Kubeconfig(usherUser, "system:serviceaccounts", "system:serviceaccounts:usher")
	if err != nil {
		return err
	}
	w.both, err = w.cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "usher-both", Before: grant, Env: asDeployed, Flags: []string{
		listenAt(at.both), "--shutdown-delay=0s", "--cluster=api", "--kubeconfig=" + account, gates}})
	return err
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func listenAt(port int) string { return "--listen=" + address(port) }

// registerAll registers all ways.
func (w *world) registerAll(ctx context.Context, at ports) error {
	w.ways = []way{{name: none, like: none}}
	plain, err := w.core.Run(ctx, "webhooks", "--config", w.core.PolicyFile(), "--ca-file", w.core.CAFile)
	if err != nil {
		return err
	}
	full, err := w.both.Run(ctx, "webhooks", suites, gates, "--config", w.both.PolicyFile(), "--ca-file", w.both.CAFile)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		way     way
		printed string
		port    int
	}{
		{way{name: constantCore, like: core, pid: w.constantCore.Pid}, plain, at.constantCore},
		{way{name: core, like: core, pid: pidOf(w.core)}, plain, at.core},
		{way{name: constantBoth, like: both, pid: w.constantBoth.Pid}, full, at.constantBoth},
		{way{name: both, like: both, pid: pidOf(w.both), begin: w.startBoth, end: w.both.Replicas[0].Terminate}, full, at.both},
	} {
		configurations, err := registration(one.printed, one.way.name, one.port, one.way.name == core)
		if err != nil {
			return err
		}
		if err := w.register(ctx, configurations); err != nil {
			return err
		}
		one.way.webhooks = calledForPods(configurations)
		w.ways = append(w.ways, one.way)
	}
	return nil
}

// startBoth starts usher with both suites for a round, because it watches all pods: the API server would send it those of
// the other ways too.
func (w *world) startBoth(ctx context.Context) error {
	if err := w.both.Replicas[0].Start(ctx); err != nil {
		return err
	}
	return w.both.Balancer.Wait(ctx, 1)
}

func pidOf(u *kubetest.Usher) func() int {
	return func() int { return u.Replicas[0].Process().Pid() }
}
