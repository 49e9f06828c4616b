package collections

import (
	"iter"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
)

// Follow lets a ledger follow what the cluster keeps of pods and, if its records are shared with other replicas, of elastic quotas. It is
// for cluster.Options.
func Follow(l *ledger.Ledger) map[string]cluster.Follower {
	followers := map[string]cluster.Follower{api.CollectionPodRequests: follower{l.Pods()}}
	if l.Shared() {
		followers[api.CollectionElasticQuotas] = follower{l.Quotas()}
	}
	return followers
}

// follower tells a ledger's follower what a cluster's is told.
type follower struct{ to ledger.Follower }

// Replace is cluster.Follower's.
func (f follower) Replace(all iter.Seq[cluster.Object], version string) {
	var list []ledger.Seen
	for o := range all {
		list = append(list, seen(o))
	}
	f.to.Replace(list, version)
}

// Put is cluster.Follower's.
func (f follower) Put(o cluster.Object) { f.to.Put(seen(o)) }

// Remove is cluster.Follower's.
func (f follower) Remove(o cluster.Object) { f.to.Remove(seen(o)) }

// Reached is cluster.Follower's.
func (f follower) Reached(version string) { f.to.Reached(version) }

func seen(o cluster.Object) ledger.Seen {
	return ledger.Seen{Key: o.Key, Version: o.Version, Object: o.Kept,
		Record: o.Annotations[ledger.Annotation], ChildRequest: o.Annotations[api.AnnotationQuotaChildRequest]}
}
