package ledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Replicas that admit pods into one tree take turns to write its record, instead of racing for it: for the API server,
// an overtaken write is as much work as a successful one. After each write, time is divided into slots, one for each
// replica that has written lately, in the order of their names, beginning with the one after the writer. A replica
// begins its write in the first half of its slot. And no write begins immediately after another: the pods that arrive
// in between share it. All this is only a matter of speed; that no write is lost is up to the store.

const (
	// turnMemory is the time for which a replica that has written keeps a slot.
	turnMemory = time.Second
	// maxTurn bounds the wait for a turn, and maxPause the wait of a replica that writes alone.
	maxTurn  = 250 * time.Millisecond
	maxPause = 25 * time.Millisecond
)

// pace is a moving average of the duration of writes.
type pace struct{ average atomic.Int64 }

func (p *pace) add(took time.Duration) {
	before := p.average.Load()
	p.average.Store(before + (int64(took)-before)/4)
}

// turn returns how long a replica waits before it writes. since is the time since the last write, write the duration of
// a write, and place the number of replicas before this one.
func turn(since, write time.Duration, place, replicas int) time.Duration {
	pause, slot := min(write/4, maxPause), min(2*write, maxTurn/2)
	cycle := time.Duration(replicas) * slot
	begin := since - pause - time.Duration(place)*slot // the time since its slot began
	switch {
	case begin < 0:
		return -begin
	case replicas == 1 || cycle == 0 || since > pause+2*cycle: // no other replica competes
		return 0
	}
	if in := begin % cycle; in > slot/2 {
		return cycle - in
	}
	return 0
}

// awaitTurn waits until this replica may write the record of an object, but not longer than deadline. It reports whether it
// has waited.
func (s *recordStore) awaitTurn(ctx context.Context, key types.NamespacedName, deadline time.Time) (waited bool) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for ; s.options.shared() && ctx.Err() == nil; waited = true {
		changed := s.objects.change()
		wait := s.untilTurn(key)
		if wait < time.Millisecond {
			return waited
		}
		if !waited {
			s.counts.waitsForTurn.Add(1)
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return waited
}

// untilTurn returns how long to wait before the record of an object is written.
func (s *recordStore) untilTurn(key types.NamespacedName) time.Duration {
	since, place, replicas := s.objects.placeAfter(key, s.options.Replica)
	return turn(since, time.Duration(s.pace.average.Load()), place, replicas)
}

// writers are the replicas that have written the record of an object.
type writers struct {
	last string
	at   time.Time            // of the last write, as far as this replica knows
	all  map[string]time.Time // by replica, the time of its last write
}

// noteWriter notes who has written a record, from its text. The caller holds mu.
func (o *objects) noteWriter(key types.NamespacedName, text string) {
	_, rest, _ := strings.Cut(text, `"by":"`) // the first is the writer of the record; its other parts are not parsed for this
	name, _, _ := strings.Cut(rest, `"`)
	w := o.writers[key]
	if w == nil {
		w = &writers{all: map[string]time.Time{}}
		o.writers[key] = w
	}
	w.last, w.at = name, time.Now()
	w.all[name] = w.at
}

// placeAfter returns the time since the last write of a record, how many of the replicas that have written it lately come
// before a replica after that write, and how many they are, with itself.
func (o *objects) placeAfter(key types.NamespacedName, own string) (since time.Duration, place, replicas int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.writers[key]
	if w == nil {
		return turnMemory, 0, 1
	}
	maps.DeleteFunc(w.all, func(_ string, at time.Time) bool { return time.Since(at) > turnMemory })
	ring := slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq([]string{own, w.last}, maps.Keys(w.all)))))
	n := len(ring)
	return time.Since(w.at), (slices.Index(ring, own) - slices.Index(ring, w.last) - 1 + n) % n, n
}
