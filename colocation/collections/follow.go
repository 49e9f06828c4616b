package collections

import (
	"iter"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
)

// Follow returns a value for cluster.Options.Follow that passes the kept state of pods, and of elastic quotas if the
// records are shared with other replicas, to a ledger.
func Follow(l *ledger.Ledger) map[string]cluster.Follower {
	followers := map[string]cluster.Follower{api.CollectionPodRequests: follower{l.Pods()}}
	if l.Shared() {
		followers[api.CollectionElasticQuotas] = follower{l.Quotas()}
	}
	return followers
}

// follower is a cluster.Follower that passes the events to a follower of the ledger.
type follower struct{ to ledger.Follower }

func (f follower) Replace(all iter.Seq[cluster.Object], version string) {
	var list []ledger.Seen
	for o := range all {
		list = append(list, seen(o))
	}
	f.to.Replace(list, version)
}

func (f follower) Put(o cluster.Object)    { f.to.Put(seen(o)) }
func (f follower) Remove(o cluster.Object) { f.to.Remove(seen(o)) }
func (f follower) Reached(version string)  { f.to.Reached(version) }

func seen(o cluster.Object) ledger.Seen {
	return ledger.Seen{Key: o.Key, Version: o.Version, Object: o.Kept,
		Record: o.Annotations[ledger.Annotation], ChildRequest: o.Annotations[api.AnnotationQuotaChildRequest]}
}
