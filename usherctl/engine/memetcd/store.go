package memetcd

import (
	"slices"
	"sort"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// maxEvents is the maximum number of kept events. kube-apiserver compacts every five minutes; this bounds the memory until then.
const maxEvents = 1 << 16

// store has the versions of all keys since a compaction. Its methods, but for newStore and endLeases, need the lock.
type store struct {
	mu        sync.Mutex
	revision  int64
	compacted int64                         // versions that another has replaced by then are gone
	keys      []string                      // that have versions, sorted
	versions  map[string][]*mvccpb.KeyValue // oldest first; in a deletion, Version is 0
	events    []*mvccpb.KeyValue            // all versions since compacted, in order
	changed   chan struct{}                 // closed at the next change
	leases    map[int64]*time.Timer
	lastLease int64
}

func newStore() *store {
	return &store{revision: 1, versions: map[string][]*mvccpb.KeyValue{}, changed: make(chan struct{}), leases: map[int64]*time.Timer{}}
}

// at returns the version of a key at a revision; nil if there was none.
func (s *store) at(key string, revision int64) *mvccpb.KeyValue {
	versions := s.versions[key]
	i := sort.Search(len(versions), func(i int) bool { return versions[i].ModRevision > revision })
	if i == 0 || versions[i-1].Version == 0 {
		return nil
	}
	return versions[i-1]
}

// within calls visit with the version of each key of a range at a revision, in order.
func (s *store) within(key, end []byte, revision int64, visit func(*mvccpb.KeyValue)) {
	for _, k := range s.keys[sort.SearchStrings(s.keys, string(key)):] {
		if !in(k, key, end) {
			return
		}
		if kv := s.at(k, revision); kv != nil {
			visit(kv)
		}
	}
}

// in reports whether a key is in a range of etcd: one key without an end, and all from the first on if the end is "\x00".
func in(k string, key, end []byte) bool {
	switch {
	case len(end) == 0:
		return k == string(key)
	case len(end) == 1 && end[0] == 0:
		return k >= string(key)
	}
	return k >= string(key) && k < string(end)
}

// set adds a version of a key at revision next: the same for all changes of a transaction, and from the first on the store's.
func (s *store) set(next int64, kv *mvccpb.KeyValue) {
	s.revision, kv.ModRevision = next, next
	key := string(kv.Key)
	if s.versions[key] == nil {
		s.keys = slices.Insert(s.keys, sort.SearchStrings(s.keys, key), key)
	}
	s.versions[key] = append(s.versions[key], kv)
	s.events = append(s.events, kv)
}

// put stores a value.
func (s *store) put(next int64, key, value []byte, lease int64) {
	kv := &mvccpb.KeyValue{Key: key, Value: value, Lease: lease, CreateRevision: next, Version: 1}
	if old := s.at(string(key), next); old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
	}
	s.set(next, kv)
}

// remove deletes a range, and returns what was there.
func (s *store) remove(next int64, key, end []byte) (gone []*mvccpb.KeyValue) {
	s.within(key, end, next, func(kv *mvccpb.KeyValue) { gone = append(gone, kv) })
	for _, kv := range gone {
		s.set(next, &mvccpb.KeyValue{Key: kv.Key})
	}
	return gone
}

// commit ends a transaction: watches see its changes, if there are any.
func (s *store) commit(next int64) {
	if s.revision != next {
		return
	}
	if len(s.events) > maxEvents {
		s.compact(s.events[maxEvents/2].ModRevision)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// compact forgets the versions that others have replaced at a revision, and events before it.
func (s *store) compact(revision int64) {
	s.compacted = revision
	s.keys = slices.DeleteFunc(s.keys, func(key string) bool {
		versions := s.versions[key]
		first := sort.Search(len(versions), func(i int) bool { return versions[i].ModRevision > revision })
		if first > 0 && versions[first-1].Version > 0 {
			first--
		}
		if first == len(versions) {
			delete(s.versions, key)
			return true
		}
		s.versions[key] = slices.Clone(versions[first:])
		return false
	})
	s.events = slices.Clone(s.events[s.firstEvent(revision):])
}

// firstEvent returns the index of the first event that is not before a revision.
func (s *store) firstEvent(revision int64) int {
	return sort.Search(len(s.events), func(i int) bool { return s.events[i].ModRevision >= revision })
}

// revoke ends a lease: the keys that have it are deleted at one revision.
func (s *store) revoke(id int64) {
	s.leases[id].Stop()
	delete(s.leases, id)
	next := s.revision + 1
	for _, key := range slices.Clone(s.keys) {
		if kv := s.at(key, s.revision); kv != nil && kv.Lease == id {
			s.set(next, &mvccpb.KeyValue{Key: kv.Key})
		}
	}
	s.commit(next)
}

func (s *store) endLeases() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, timer := range s.leases {
		timer.Stop()
	}
}
