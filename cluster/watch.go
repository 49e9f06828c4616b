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

// server watches an API server.
type server struct {
	client  rest.Interface
	backoff wait.Backoff
}

// defaultBackoff is the delay before a failed list or watch is repeated. With jitter, which at most doubles it, it is
// at most 30 s.
var defaultBackoff = wait.Backoff{Duration: 800 * time.Millisecond, Cap: 15 * time.Second, Steps: 20, Factor: 2, Jitter: 1}

// run watches the collections that are kept until ctx ends. client-go's Reflector lists the objects (by a streaming
// watch if the server supports it, so that neither side holds the whole list in memory), watches them, and starts again
// after a backoff. Meanwhile the last known state stays.
func (s *server) run(ctx context.Context, c *Cluster) {
	silent := logr.Discard() // listWatch reports more errors than the reflector logs, and each only once
	ctx = klog.NewContext(ctx, silent)
	for _, of := range c.streams() {
		name := c.rows[of[0]].name
		reflector := cache.NewReflectorWithOptions(s.listWatch(c, of), nil, &store{c, of}, cache.ReflectorOptions{
			Logger: &silent, Name: name, TypeDescription: name, Backoff: &s.backoff,
		})
		go reflector.RunWithContext(ctx)
	}
	<-ctx.Done()
}

// failed records that a list or watch failed. A kind whose CRD is not installed is not a failure: it has no objects.
// Objects that were already known stay, because the API server deletes the objects of a CRD one by one before the CRD.
func (c *Cluster) failed(k int, err error) {
	missing := c.rows[k].crd && apierrors.IsNotFound(err)
	before := c.healthOf(k)
	if missing {
		if !before.missing {
			c.log.WithField("kind", c.rows[k].name).Warn("the API server does not serve this kind, perhaps because its CRD is not installed; usher " +
				"goes on without, and looks for it again")
		}
		c.reportHealth(k, health{last: time.Now(), missing: true})
		c.syncWithoutCRD(k)
		return
	}
	if before.err == nil || before.err.Error() != err.Error() {
		c.log.WithError(err).WithField("kind", c.rows[k].name).Warn("cannot watch the cluster; the last known state counts")
	}
	c.reportHealth(k, health{missing: before.missing, err: err})
}

// syncWithoutCRD marks a collection whose CRD is not installed as synced and empty, unless it has been synced before.
func (c *Cluster) syncWithoutCRD(k int) {
	if c.latest().collected[k].synced {
		return
	}
	c.change(func(s *state) bool {
		s.collected[k].synced = true
		return true
	}, k)
	c.follow(k, func(f Follower) { f.Replace(func(func(Object) bool) {}, "") })
}

func (c *Cluster) healthOf(k int) health {
	c.watching.Lock()
	defer c.watching.Unlock()
	return c.healths[k]
}

// store stores the objects that a reflector delivers in the cluster's snapshots, and notifies the followers of their
// collections. It implements cache.ReflectorStore and ReflectorBookmarkStore. A reflector calls its methods one at a time.
type store struct {
	c  *Cluster
	of stream
}

// alive records that the API server answers.
func (s *store) alive() {
	for _, k := range s.of {
		if before := s.c.healthOf(k); before.err != nil || before.missing {
			s.c.log.WithField("kind", s.c.rows[k].name).Info("watching works now")
		}
		s.c.reportHealth(k, health{last: time.Now()})
	}
}

// Add stores an object.
func (s *store) Add(object any) error {
	s.alive()
	s.c.change(func(next *state) (changed bool) {
		for k, i := range s.of.each(object) {
			changed = next.put(k, i) || changed
		}
		return changed
	}, s.of...)
	for k, i := range s.of.each(object) {
		s.c.follow(k, func(f Follower) { f.Put(s.c.seen(k, i)) })
	}
	return nil
}

// Update stores an object.
func (s *store) Update(object any) error { return s.Add(object) }

// Delete removes an object.
func (s *store) Delete(object any) error {
	s.alive()
	gone := make([]Object, 0, len(s.of))
	for k, i := range s.of.each(object) {
		last := s.c.seen(k, i)
		if i.err == nil {
			last.Kept = i.kept // the last state, which may be newer than the stored one
		}
		gone = append(gone, last)
	}
	s.c.change(func(next *state) (changed bool) {
		for k, i := range s.of.each(object) {
			changed = next.remove(k, i.key) || changed
		}
		return changed
	}, s.of...)
	for n, k := range s.of {
		s.c.follow(k, func(f Follower) { f.Remove(gone[n]) })
	}
	return nil
}

// Replace replaces all objects of the collections.
func (s *store) Replace(objects []any, version string) error {
	s.alive()
	var first []int
	for _, k := range s.of {
		if !s.c.latest().collected[k].synced {
			first = append(first, k)
		}
	}
	s.c.change(func(next *state) bool {
		for n, k := range s.of {
			next.replace(k, s.of.all(n, objects))
		}
		return true
	}, s.of...)
	for n, k := range s.of {
		s.c.follow(k, func(f Follower) { f.Replace(s.c.allSeen(k, s.of.all(n, objects)), version) })
	}
	for _, k := range first {
		s.c.log.WithField("kind", s.c.rows[k].name).WithField("objects", len(objects)).Info("cluster state synced")
	}
	return nil
}

// Resync is never called.
func (s *store) Resync() error { return nil }

// Bookmark records that the API server answers, and that all events up to the version have arrived.
func (s *store) Bookmark(version string) error {
	s.alive()
	for _, k := range s.of {
		s.c.follow(k, func(f Follower) { f.Reached(version) })
	}
	return nil
}
