package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

func TestWithoutUsher(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	newNode(ctx, t, "outage")
	k := &kubelet{name: "outage", cpu: "15900m", cores: "16"}
	heartbeat := func(want size) {
		t.Helper()
		k.seen = nil
		if _, err := k.heartbeat(ctx); err != nil {
			t.Errorf("a heartbeat fails: %v", err)
		}
		checkSize(t, stored(ctx, t, nodePath("outage")), want)
	}
	heartbeat(size{"31800m", "16", "15900m"})
	cluster.DeleteAfter(t, podPath("apps", "before"))
	if _, err := cluster.Admin().Create(ctx, podPath("apps", ""), pod("apps", "before", "12")); err != nil {
		t.Fatal(err)
	}

	start := usher.KillAll(ctx, t)
	t.Run("new pods are refused", func(t *testing.T) {
		for _, way := range ways {
			_, err := way.create(ctx, pod("apps", "outage", "12"), false)
			checkSays(t, err, `failed calling webhook "mutate-pods.usher.dev"`)
			checkNotStored(ctx, t, podPath("apps", "outage"))
		}
	})
	t.Run("pods that exist can be changed and deleted", func(t *testing.T) {
		if err := patch(ctx, podPath("apps", "before"), kubetest.MergePatch, `{"metadata": {"labels": {"mark": "1"}}}`); err != nil {
			t.Error(err)
		}
		if _, err := cluster.Admin().Delete(ctx, podPath("apps", "before")); err != nil {
			t.Error(err)
		}
	})
	t.Run("other namespaces go on, usher's own too", func(t *testing.T) {
		for _, name := range []string{"default", "kube-system"} {
			cluster.DeleteAfter(t, podPath(name, "outage"))
			if _, err := cluster.Admin().Create(ctx, podPath(name, ""), pod(name, "outage", "12")); err != nil {
				t.Error(err)
			}
		}
		if _, err := cluster.Kubectl(ctx, "-n", "usher", "rollout", "restart", "deployment/usher"); err != nil {
			t.Error(err)
		}
	})
	t.Run("heartbeats are let through", func(t *testing.T) {
		heartbeat(size{"15900m", "16", "15900m"}) // amplification is lost, the record is not
		checkFailedOpen(t, "patch", "nodes/status", "outage", "mutate-nodes.usher.dev")
		if _, err := foreignWrites[0](ctx, "outage", "away"); err != nil {
			t.Error(err)
		}
	})
	start()

	// Whichever client writes first, the record contains the measured numbers.
	if _, err := foreignWrites[1](ctx, "outage", "back"); err != nil {
		t.Error(err)
	}
	checkSize(t, stored(ctx, t, nodePath("outage")), size{"31800m", "16", "15900m"})
	heartbeat(size{"31800m", "16", "15900m"})
	cluster.DeleteAfter(t, podPath("apps", "after"))
	if _, err := cluster.Admin().Create(ctx, podPath("apps", ""), pod("apps", "after", "12")); err != nil {
		t.Fatal(err)
	}
	checkSeated(t, stored(ctx, t, podPath("apps", "after")), "14 13 12")
}

// load calls a function repeatedly in the background until it is stopped.
type load struct {
	done, failed atomic.Int64
	first        atomic.Pointer[error]
	stop         chan struct{}
	running      sync.WaitGroup
}

func (l *load) run(call func(i int) error) {
	l.running.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-l.stop:
				return
			default:
			}
			if err := call(i); err != nil {
				l.failed.Add(1)
				l.first.CompareAndSwap(nil, &err)
			}
			l.done.Add(1)
		}
	})
}

// wait waits until n more calls have returned.
func (l *load) wait(ctx context.Context, more int64) error {
	before := l.done.Load()
	return kubetest.Eventually(ctx, func(context.Context) error {
		if n := l.done.Load() - before; n < more {
			return fmt.Errorf("only %d calls came back, want %d", n, more)
		}
		return nil
	})
}

// A rollout: each replica is terminated by SIGTERM and replaced by another, while pods are created and nodes report. No
// request fails, and no heartbeat bypasses usher, which the failure policy would hide.
func TestRolloutUnderLoad(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	newNode(ctx, t, "rollout")
	k := &kubelet{name: "rollout", cpu: "15900m", cores: "16"}
	pods, heartbeats := &load{stop: make(chan struct{})}, &load{stop: make(chan struct{})}
	for worker := range 3 {
		pods.run(func(int) error { return comeAndGo(ctx, fmt.Sprint("rollout-", worker)) })
	}
	heartbeats.run(func(i int) error {
		node, err := k.heartbeat(ctx)
		if want := (size{"31800m", "16", "15900m"}); err == nil && sizeOf(node) != want {
			err = fmt.Errorf("heartbeat %d passed usher by: the node shows %s, want %s", i, sizeOf(node), want)
		}
		return err
	})
	err := rollout(ctx, pods, heartbeats)
	for name, load := range map[string]*load{"pods": pods, "heartbeats": heartbeats} {
		close(load.stop)
		load.running.Wait()
		if first := load.first.Load(); first != nil {
			t.Errorf("%d of %d %s failed, first: %v", load.failed.Load(), load.done.Load(), name, *first)
		}
		t.Logf("%d %s", load.done.Load(), name)
	}
	if err != nil {
		t.Error(err)
	}
	checkNeverFailedOpen(t, "nodes", "rollout")
}

// rollout restarts one replica after the other, with load before, in between and after.
func rollout(ctx context.Context, loads ...*load) error {
	underLoad := func() error {
		for _, load := range loads {
			if err := load.wait(ctx, 20); err != nil {
				return err
			}
		}
		return nil
	}
	for _, replica := range usher.Replicas {
		if err := underLoad(); err != nil {
			return err
		}
		if err := replica.Terminate(ctx); err != nil {
			return err
		}
		if code := replica.Process().ExitCode(); code != 0 {
			return fmt.Errorf("%s ended with exit code %d", replica.Name, code)
		}
		if err := underLoad(); err != nil {
			return err
		}
		if err := replica.Start(ctx); err != nil {
			return err
		}
		if err := usher.Balancer.Wait(ctx, len(usher.Replicas)); err != nil {
			return err
		}
	}
	return underLoad()
}

func comeAndGo(ctx context.Context, name string) error {
	created, err := cluster.Admin().Create(ctx, podPath("apps", ""), pod("apps", name, "12"))
	if err != nil {
		return err
	}
	if got := days(created); got != "14 13 12" {
		return fmt.Errorf("pod %s tolerates days %q", name, got)
	}
	_, err = cluster.Admin().Delete(ctx, podPath("apps", name))
	return err
}
