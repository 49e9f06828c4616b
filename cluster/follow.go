package cluster

import "iter"

// Follower is told everything that happens to the objects of a collection, in order: also what changes nothing that is kept, because the
// resourceVersion has moved on all the same. It is told by the goroutine that puts the changes of its collection in force, so one thing at
// a time, and after they are: a follower that looks finds them there. No lock is held: a follower that takes its time holds up its own
// collection, and nobody who asks.
type Follower interface {
	// Replace tells all objects there are, as of a version; what is not among them is gone.
	Replace(all iter.Seq[Object], version string)
	// Put tells an object that came or changed.
	Put(Object)
	// Remove tells an object that is gone. Its Version is that of the deletion, as far as known.
	Remove(Object)
	// Reached tells that nothing older than the version is missing.
	Reached(version string)
}

// Object is an object as a source brought it.
type Object struct {
	Key     string // the name, after the namespace and a slash if there is one
	Version string // resourceVersion; of files, the number of their reading
	// Kept is what the collection keeps of it, the one that snapshots have, so that it is in memory once. If the newest state does not
	// decode, it is the last one that did; nil if none ever did.
	Kept any
	// Told are the annotations of Collection.Tell, always of the newest state; nil without.
	Told map[string]string
}

// follow tells the follower of a collection, if there is one.
func (c *Cluster) follow(k int, tell func(Follower)) {
	if follower := c.options.Follow[c.rows[k].name]; follower != nil {
		tell(follower)
	}
}

// seen gives an object as followers are told of it.
func (c *Cluster) seen(k int, i *item) Object {
	kept, _ := c.latest().collected[k].objects.get(i.key())
	return Object{Key: i.key(), Version: i.ResourceVersion, Kept: kept, Told: i.told}
}

func (c *Cluster) allSeen(k int, items []*item) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, i := range items {
			if !yield(c.seen(k, i)) {
				return
			}
		}
	}
}
