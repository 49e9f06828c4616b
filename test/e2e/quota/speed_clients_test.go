package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// milliPod is what each pod requests, in thousandths of a core.
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
// if keep is 0, they delete none.
type crowdSize struct{ clients, keep int }

// clients create pods until they are over.
type clients struct {
	crowdSize
	homes []home

	begun, stored, refusals, failed atomic.Int64
	failure                         atomic.Value // one of the errors
	counting, over                  atomic.Bool

	// Of the pods that were first tried while counting: the longest time from the first attempt until the pod was stored, and
	// that until the last attempt began, which refusals cost.
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

// awaitFull waits until every client has the pods that it keeps.
func (c *clients) awaitFull(ctx context.Context) {
	for c.stored.Load()+c.failed.Load() < int64(c.clients*c.keep) && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
}

// work is one client.
func (c *clients) work(ctx context.Context) {
	var own []string // paths
	for !c.over.Load() && ctx.Err() == nil {
		if c.keep > 0 && len(own) == c.keep {
			_, err := cluster.Admin().Delete(ctx, own[0])
			c.note(err)
			own = own[1:]
		}
		n := c.begun.Add(1)
		in, name := c.homes[n%int64(len(c.homes))], fmt.Sprintf("p-%d", n)
		c.note(c.create(ctx, in, name))
		if c.keep > 0 {
			own = append(own, podPath(in.namespace, name))
		}
	}
}

func (c *clients) note(err error) {
	if err != nil {
		c.failed.Add(1)
		c.failure.Store(err.Error())
	}
}

// create creates a pod. Where pods are replaced, it tries again after 10 to 30 ms if the pod is refused.
func (c *clients) create(ctx context.Context, in home, name string) error {
	counted, first := c.counting.Load(), time.Now()
	for {
		last := time.Now()
		err := createPod(ctx, in.namespace, name, in.quota, fmt.Sprintf("%dm", milliPod))
		if err == nil {
			c.stored.Add(1)
			if counted {
				c.creation.note(time.Since(first))
				c.lost.note(last.Sub(first))
			}
			return nil
		}
		if c.keep == 0 || outcome(err) != fullUp {
			return err
		}
		c.refusals.Add(1)
		pause(ctx, 10*time.Millisecond+rand.N(20*time.Millisecond))
	}
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
