package ledger

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// A grant is room in a quota that a record holds for one replica. The replica admits new pods against it without a write;
// for all others it is a reservation of the whole amount. With the next write the replica enters these pods as reservations
// of their own and takes a new grant, so that what it has admitted is in the record at all times, by name or as room.
//
// A grant may be spent for grantUse only. Whoever must know that nobody admits pods by an earlier state of the tree, or
// needs the room, asks for the grants with a mark in the record, and has waited long enough when grantUse is over.

// grantUse is the time for which a replica spends a grant, from the beginning of the write that made it.
const grantUse = 2 * time.Second

// grantEnd is the time after which others may rely on that a grant that they have found in a record is not spent any
// more. Clocks do not run at exactly the same rate.
const grantEnd = grantUse + grantUse/4

// grants are the grants of this replica, and what it knows of those of others.
type grants struct {
	options *Options
	objects *objects
	queues  *queues
	counts  *counters

	mu    sync.Mutex
	ended bool                               // the replica is shutting down: it takes and spends no more
	in    map[types.NamespacedName]*granted  // by the object whose record holds them
	found map[reservationID]foundGrant       // in records
	until map[types.NamespacedName]time.Time // no grants are taken in a record until then, because they were recalled
}

// foundGrant holds what is known about a grant in a record, usually of another replica.
type foundGrant struct {
	at   time.Time // when it was found first: the clocks of replicas differ
	pods string    // a version of the pods that was read after the last pod that it admitted could be stored; empty: none yet
}

// granted are the grants of this replica in one record. They are renewed together.
type granted struct {
	writing chan struct{} // has a value while the record is being written
	at, new int64         // the times that identify the grants in force, and those that may be in force if a write took effect
	last    int64         // the newest time that a plan was written with, or was to be
	begun   time.Time     // when the write of those in force began; zero if none are
	of      map[string]*grant
	spent   []reservation // the pods that were admitted and that the record does not name, oldest first
	first   int           // the number of the first of them, of all that were ever admitted
	pruned  int           // how often quotas were removed from of
	later   bool          // they will be renewed after some time
	check   grantCheck
}

// grant is the grant in one quota.
type grant struct {
	path   []*quota.Quota // at the time of the grant
	total  sum            // of all that was ever spent
	limit  sum            // that total may reach; nil if there is no grant
	room   sum            // that it had when it was made
	demand demand
}

// grantCheck holds what a version of the record says about the grants.
type grantCheck struct {
	version string
	held    map[string]bool // the quotas whose grants are in force
	record  record
	top     *quota.Quota
}
