package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// milliPod is the CPU request of each pod, in milli-cores.
const milliPod = 100

// home is a namespace, and a quota that the pods there name, or that is there.
type home struct{ namespace, quota string }

// homes returns n of them, numbered if they are several.
func homes(n int, namespace, quota string) (all []home) {
	if n == 1 {
		return []home{{namespace, quota}}
	}
	for i := range n {
		all = append(all, home{fmt.Sprintf("%s-%d", namespace, i), fmt.Sprintf("%s-%d", quota, i)})
	}
	return all
}

// crowdSize is the number of clients. Each of them deletes its oldest pod before it creates another one, if it has keep pods;
// if keep is 0, they delete none. The quota has room for short pods less than they would keep together.
type crowdSize struct{ clients, keep, short int }

// most returns the number of pods for which there is room where pods are replaced.
func (s crowdSize) most() int { return s.clients*s.keep - s.short }

// clients create pods until they are over.
type clients struct {
	crowdSize
	homes []home

	begun, stored, refusals atomic.Int64
	timedOut, failed        atomic.Int64
	failure                 atomic.Value // one of the errors
	counting, over          atomic.Bool

	// Of the pods that were first tried while counting: the longest time from the first attempt until the pod was stored, and
	// that until the last attempt began or, if the pod was not stored until the end, was refused.
	creation, lost longest
}

func newClients(size crowdSize, homes []home) *clients {
	return &clients{crowdSize: size, homes: homes}
}

// begin lets the clients work, and returns a channel that is closed when they have ended.
func (c *clients) begin(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	var all sync.WaitGroup
	for range c.clients {
		all.Go(func() { c.work(ctx) })
	}
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// awaitFull waits until the clients have the pods for which there is room.
func (c *clients) awaitFull(ctx context.Context) {
	for c.stored.Load() < int64(c.most()) && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
}

// work is one client.
func (c *clients) work(ctx context.Context) {
	var own []string // paths
	for !c.over.Load() && ctx.Err() == nil {
		if c.keep > 0 && len(own) == c.keep {
			c.remove(ctx, own[0])
			own = own[1:]
		}
		n := c.begun.Add(1)
		in, name := c.homes[n%int64(len(c.homes))], fmt.Sprintf("p-%d", n)
		c.create(ctx, in, name)
		if c.keep > 0 {
			own = append(own, podPath(in.namespace, name))
		}
	}
}

// create creates a pod. Where pods are replaced, it tries again after 50 to 100 ms if the pod is refused. It tries again after any
// other error, too, so that the pods stay as many as they should be.
func (c *clients) create(ctx context.Context, in home, name string) {
	counted, first := c.counting.Load(), time.Now()
	for ctx.Err() == nil {
		last := time.Now()
		err := createPod(ctx, in.namespace, name, in.quota, fmt.Sprintf("%dm", milliPod))
		switch {
		case err == nil, hasReason(err, "AlreadyExists"): // stored by an attempt that failed
			c.stored.Add(1)
			if counted {
				c.creation.note(time.Since(first))
				c.lost.note(last.Sub(first))
			}
			return
		case c.keep > 0 && outcome(err) == fullUp:
			c.refusals.Add(1)
			if over := c.over.Load(); over && c.short > 0 { // nobody makes room any more
				return
			} else if counted && !over {
				c.lost.note(time.Since(first))
			}
			pause(ctx, 50*time.Millisecond+rand.N(50*time.Millisecond))
		default:
			c.fail(ctx, err)
		}
	}
}

// remove deletes a pod.
func (c *clients) remove(ctx context.Context, path string) {
	for ctx.Err() == nil {
		_, err := cluster.Admin().Delete(ctx, path)
		if err == nil || hasReason(err, "NotFound") {
			return
		}
		c.fail(ctx, err)
	}
}

// fail counts an error, and waits before the next attempt. With many clients on few cores a webhook is not answered within the 5 s
// that the API server waits. That is a result; any other error fails the test.
func (c *clients) fail(ctx context.Context, err error) {
	if strings.Contains(err.Error(), "failed to call webhook") && strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		c.timedOut.Add(1)
	} else {
		c.failed.Add(1)
		c.failure.Store(err.Error())
	}
	pause(ctx, 100*time.Millisecond)
}

// longest is the longest of some times.
type longest struct{ ns atomic.Int64 }

func (l *longest) note(took time.Duration) {
	for {
		before := l.ns.Load()
		if int64(took) <= before || l.ns.CompareAndSwap(before, int64(took)) {
			return
		}
	}
}

func (l *longest) get() time.Duration { return time.Duration(l.ns.Load()) }

func (l *longest) reset() { l.ns.Store(0) }

// together calls a function with the numbers below n, some at a time, and fails the test on errors.
func together(t *testing.T, n int, each func(int) error) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(n, 16) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := each(int(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
