package cluster

import "usher.dev/usher/quota/ledger"

// Followers are told by the goroutine that puts the changes of their kind in force, so one thing at a time and in order, and after it
// did so. No lock is held: a follower that takes its time holds up its own kind, and nobody who asks.

// follow tells the follower of a kind, if there is one.
func (c *Cluster) follow(k Kind, tell func(ledger.Follower)) {
	if follower := c.options.Follow[k]; follower != nil {
		tell(follower)
	}
}

// seen gives an object as followers are told of it: with what the snapshot in force keeps of it, so that it is in memory once.
func (c *Cluster) seen(k Kind, i *item) ledger.Seen {
	kept, _ := c.Now().kinds[k].objects.get(i.key())
	return ledger.Seen{Key: i.key(), Version: i.ResourceVersion, Object: kept, Record: i.record, ChildRequest: i.childRequest}
}

func (c *Cluster) allSeen(k Kind, items []*item) []ledger.Seen {
	all := make([]ledger.Seen, len(items))
	for n, i := range items {
		all[n] = c.seen(k, i)
	}
	return all
}
