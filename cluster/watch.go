package cluster

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// server is an API server that tells what changes.
type server struct {
	client  rest.Interface
	backoff wait.Backoff
}

// defaultBackoff is how long a failed list or watch waits for its repetition. The jitter doubles it at most: 30 s.
var defaultBackoff = wait.Backoff{Duration: 800 * time.Millisecond, Cap: 15 * time.Second, Steps: 20, Factor: 2, Jitter: 1}

// run reflects each collection that is kept until ctx ends. client-go's Reflector lists (by a watch where that is offered, which spares both
// sides the whole list in memory), watches, and begins again after a backoff; what it knows stays while it cannot.
func (s *server) run(ctx context.Context, c *Cluster) {
	silent := logr.Discard() // listWatch tells more errors than the reflector does, and each of them once
	ctx = klog.NewContext(ctx, silent)
	for k, r := range c.rows {
		if !c.wanted[k] {
			continue
		}
		reflector := cache.NewReflectorWithOptions(s.listWatch(c, k), nil, &store{c, k}, cache.ReflectorOptions{
			Logger: &silent, Name: r.name, TypeDescription: r.name, Backoff: &s.backoff,
		})
		go reflector.RunWithContext(ctx)
	}
	<-ctx.Done()
}

// failed notes that a list or watch did not work. A kind whose CRD is not installed is no failure: there are no such objects.
// What was known of them stays, since the API server takes the objects away one by one before it takes away their CRD.
func (c *Cluster) failed(k int, err error) {
	missing := c.rows[k].crd && apierrors.IsNotFound(err)
	before := c.pulse(k)
	if missing {
		if !before.missing {
			c.log.WithField("kind", c.rows[k].name).Warn("the CRD is not installed; usher goes on without, and looks for it again")
		}
		c.beat(k, pulse{last: time.Now(), missing: true})
		c.withoutCRD(k)
		return
	}
	if before.err == nil || before.err.Error() != err.Error() {
		c.log.WithError(err).WithField("kind", c.rows[k].name).Warn("cannot watch the cluster; the last known state counts")
	}
	c.beat(k, pulse{missing: before.missing, err: err})
}

// withoutCRD takes a kind that nobody has defined for one of which there are no objects, if nothing was known of it.
func (c *Cluster) withoutCRD(k int) {
	if c.latest().collected[k].synced {
		return
	}
	c.change(func(s *state) bool {
		s.collected[k].synced = true
		return true
	}, k)
	c.follow(k, func(f Follower) { f.Replace(func(func(Object) bool) {}, "") })
}

func (c *Cluster) pulse(k int) pulse {
	c.watching.Lock()
	defer c.watching.Unlock()
	return c.pulses[k]
}

// store puts what a reflector brings into the cluster's snapshots, and tells the collection's follower. It implements cache.ReflectorStore and
// ReflectorBookmarkStore. A reflector brings one thing after the other.
type store struct {
	c *Cluster
	k int
}

// alive notes that the API server answers.
func (s *store) alive() {
	if before := s.c.pulse(s.k); before.err != nil || before.missing {
		s.c.log.WithField("kind", s.c.rows[s.k].name).Info("watching works now")
	}
	s.c.beat(s.k, pulse{last: time.Now()})
}

// Add takes up an object.
func (s *store) Add(object any) error {
	s.alive()
	i := object.(*item)
	s.c.change(func(next *state) bool { return next.put(s.k, i) }, s.k)
	s.c.follow(s.k, func(f Follower) { f.Put(s.c.seen(s.k, i)) })
	return nil
}

// Update takes up an object.
func (s *store) Update(object any) error { return s.Add(object) }

// Delete drops an object.
func (s *store) Delete(object any) error {
	s.alive()
	i := object.(*item)
	gone := s.c.seen(s.k, i)
	if i.err == nil {
		gone.Kept = i.kept // the last state, which may be newer than what was known
	}
	s.c.change(func(next *state) bool { return next.remove(s.k, i.key()) }, s.k)
	s.c.follow(s.k, func(f Follower) { f.Remove(gone) })
	return nil
}

// Replace takes up all objects of the collection.
func (s *store) Replace(objects []any, version string) error {
	s.alive()
	items := make([]*item, len(objects))
	for i, object := range objects {
		items[i] = object.(*item)
	}
	first := !s.c.latest().collected[s.k].synced
	s.c.change(func(next *state) bool {
		next.replace(s.k, items)
		return true
	}, s.k)
	s.c.follow(s.k, func(f Follower) { f.Replace(s.c.allSeen(s.k, items), version) })
	if first {
		s.c.log.WithField("kind", s.c.rows[s.k].name).WithField("objects", len(items)).Info("cluster state synced")
	}
	return nil
}

// Resync is never asked for.
func (s *store) Resync() error { return nil }

// Bookmark is a sign of life, and says that nothing older is to come.
func (s *store) Bookmark(version string) error {
	s.alive()
	s.c.follow(s.k, func(f Follower) { f.Reached(version) })
	return nil
}
