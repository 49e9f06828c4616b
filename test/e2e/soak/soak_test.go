// Package soak runs usher under failures for some minutes: `make soak`. Clients create pods, a Deployment is rolled out
// and nodes send heartbeats, while replicas are killed, terminated and all removed, and the API server restarts.
//
//	soak_test.go   the cluster, the invariants and the result
//	chaos_test.go  the failures, and which refusals they excuse
//	load_test.go   the clients, and the checks of nodes and replicas
package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const (
	replicas = 3
	clients  = 4
	nodes    = 2
)

// soak is one run.
type soak struct {
	t       *testing.T
	cluster *kubetest.Cluster
	usher   *kubetest.Usher
	admin   *kubetest.Client

	excuses excuses
	counts  kubetest.Counts
}

func TestSoakChaos(t *testing.T) {
	long := duration(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("USHER_SOAK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s of chaos; again with: USHER_SOAK_SEED=%d", long, seed)
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() { s.createPods(ctx, rand.New(rand.NewPCG(seed, uint64(i)+1)), i) })
	}
	running.Go(func() { s.watchNodes(ctx) })
	running.Go(func() { s.rollOut(ctx) })
	random := rand.New(rand.NewPCG(seed, 0))
	s.chaos(random, long/2, 0) // all replicas may be killed
	before := s.measure(0)
	s.chaos(random, long/2, 1) // the first replica is spared, to measure its growth
	cancel()
	running.Wait()
	s.checkMeasures(before)
	s.checkAtRest()
	t.Log(s.counts.String())
	if s.counts.Get("stored") < 100 || s.counts.Get("denied") < 10 {
		t.Error("too little happened: this run says nothing")
	}
}

// duration returns the length of the run: USHER_SOAK=1 is three minutes.
func duration(t *testing.T) time.Duration {
	t.Helper()
	switch text := os.Getenv("USHER_SOAK"); text {
	case "":
		t.Skip("takes minutes; `make soak` runs it")
	case "1":
		return 3 * time.Minute
	default:
		long, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal("USHER_SOAK is 1, or a duration such as 10m: ", err)
		}
		return long
	}
	return 0
}

// start starts a cluster with nodes, usher, and a Deployment.
func start(t *testing.T) *soak {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster, err := kubetest.Start(ctx, kubetest.Options{Scheduler: true, ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, cluster: cluster, admin: cluster.Admin()}
	t.Cleanup(s.stop)
	for i := range nodes {
		name, fast := fmt.Sprintf("node-%d", i+1), kubetest.HollowOptions{StatusEvery: time.Second}
		if _, err := cluster.StartHollow(ctx, name, fast); err != nil {
			t.Fatal(err)
		}
	}
	if s.usher, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Replicas: replicas}); err != nil {
		t.Fatal(err)
	}
	if err := s.usher.Register(ctx); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"apply -f deploy/demo/namespace.yaml", "label node --all admission-webhook=enabled",
		"wait node --all --for=jsonpath={.status.allocatable.cpu}=32 --timeout=1m",
		"-n apps create deployment web --image=pause --replicas=20"} {
		if _, err := cluster.Kubectl(ctx, strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *soak) stop() {
	if s.t.Failed() {
		s.t.Log("\n" + s.cluster.LogsOf(10, "kube-apiserver", "usher"))
	}
	if s.usher != nil {
		s.usher.Stop()
	}
	if err := s.cluster.Stop(); err != nil {
		s.t.Error(err)
	}
}

// checkAtRest checks the final state: the nodes are amplified once, the Deployment has its pods, and usher changed each
// pod.
func (s *soak) checkAtRest() {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	for _, args := range []string{"wait node --all --for=jsonpath={.status.allocatable.cpu}=32 --timeout=30s",
		"-n apps rollout status deployment/web --timeout=90s"} {
		if _, err := s.cluster.Kubectl(ctx, strings.Fields(args)...); err != nil {
			s.t.Error(err)
		}
	}
	pods, err := s.admin.Get(ctx, "/api/v1/namespaces/apps/pods")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pod := range pods.List("items") {
		s.checkSeated(pod)
	}
	s.counts.Add("pods at the end", len(pods.List("items")))
	for _, replica := range s.usher.Replicas {
		if log := replica.Process().Log(); strings.Contains(log, "panic") || strings.Contains(log, "DATA RACE") {
			s.t.Errorf("%s: the log tells of a panic:\n%s", replica.Name, log)
		}
	}
}

// checkSeated checks that usher changed a pod exactly once.
func (s *soak) checkSeated(pod kubetest.Object) {
	variables := 0
	for _, variable := range pod.List("spec", "containers", 0, "env") {
		if variable.String("name") == "KUBE" {
			variables++
		}
	}
	days := 0
	for _, toleration := range pod.List("spec", "tolerations") {
		if toleration.String("key") == "acme.com/lifespan-remaining" {
			days++
		}
	}
	want := 1 // without the label: one for every number of days
	if lifespan, err := strconv.Atoi(pod.String("metadata", "labels", "acme.com/lifespan-requested")); err == nil {
		want = 14 - lifespan + 1
	}
	if variables != 1 || days != want {
		s.t.Errorf("pod %s: KUBE is there %d times, and %d tolerations for days, want %d",
			pod.String("metadata", "name"), variables, days, want)
	}
}
