package cluster

import "iter"

// Follower receives every event of a collection, in order, including those that change nothing that is kept, because
// the resourceVersion has still advanced. Its methods are called one at a time, by the goroutine that stores the
// collection's changes, and after the change has been stored, so a snapshot taken by a follower includes it. No lock is
// held: a slow follower delays the collections of the same objects, but no readers.
type Follower interface {
	// Replace passes all existing objects as of a version; any other object is gone.
	Replace(all iter.Seq[Object], version string)
	// Put passes an object that has been added or changed.
	Put(Object)
	// Remove passes an object that has been deleted. Its Version is the version of the deletion, as far as known.
	Remove(Object)
	// Reached says that all events up to the version have been passed.
	Reached(version string)
}

// Object is an object as received from its source.
type Object struct {
	Key     string // the name, preceded by the namespace and a slash if there is one
	Version string // the resourceVersion; for files, the number of their reading
	// Kept is the T that the collection keeps; snapshots share it. If the newest state does not decode, Kept is the
	// last state that did; nil if none has.
	Kept any
	// Annotations holds the annotations of Collection.FollowAnnotations, always of the newest state; nil if there are
	// none.
	Annotations map[string]string
}

// follow calls notify with the follower of a collection, if there is one.
func (c *Cluster) follow(k int, notify func(Follower)) {
	if follower := c.follows[c.rows[k].name]; follower != nil {
		notify(follower)
	}
}

// seen returns an object in the form for followers.
func (c *Cluster) seen(k int, i *item) Object {
	kept, _ := c.latest().collected[k].objects.Get(i.key)
	return Object{Key: i.key, Version: i.version, Kept: kept, Annotations: i.annotations}
}

func (c *Cluster) allSeen(k int, items iter.Seq[*item]) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for i := range items {
			if !yield(c.seen(k, i)) {
				return
			}
		}
	}
}
