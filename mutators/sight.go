package mutators

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
)

// sight is all that one nodes/status write shows of one resource.
type sight struct {
	name         corev1.ResourceName
	now, old     amounts
	mine, stored *record // the memory in the object and in the stored object; nil: none readable
	kubelet      bool
	rate         rate // what is wanted; the zero rate: nothing
	damaged      bool // a memory is there that cannot be read
	noted        bool // an original is noted elsewhere, but explains nothing
	// sync is what the kubelet says of other resources with this write.
	sync kubeletSync
}

// kubeletSync reports whether a kubelet that leaves out a number has measured just what is stored. It has when it brings a new original of
// any amplified resource: then it has compared all that it measures with what is stored.
type kubeletSync int

const (
	silent kubeletSync = iota // nobody knows
	synced
	settled // synced, and this write was judged already: a reinvocation, so that what we remember now is the answer
)

// original is what a resource is without us, and which of our numbers stand in its place.
type original struct {
	amounts
	capacityIsOurs bool
	// guessed: nothing explains the number that arrived, and the original is what we remember. It must not make the node larger
	// than it shows itself.
	guessed bool
}

func (s sight) remembered() bool { return s.mine != nil || s.stored != nil }

// memory is the record to judge by: the object's own, else the stored one.
func (s sight) memory() *record {
	if s.mine != nil {
		return s.mine
	}
	return s.stored
}

// last is what was remembered before this write. A writer may change the memory that it sends, so that the stored one counts.
func (s sight) last(hasOld bool) *record {
	if hasOld {
		return s.stored
	}
	return s.mine
}

// original finds the amounts that the kubelet measured; false if nobody can know.
func (s sight) original() (original, bool) {
	if !s.remembered() {
		return original{amounts: s.now}, s.kubelet && plausible(s.now) || s.untouched()
	}
	allocatable, taken := s.recall(allocatableOf)
	if taken == echo && s.measuredAsStored() {
		return original{amounts: s.now}, true
	}
	capacity, ours := s.now.capacity, false
	if s.raised() {
		var as verdict
		capacity, as = s.recall(capacityOf)
		ours = as != measured
	} else if witness := s.memory().raw.capacity; taken == echo && witness != nil {
		capacity = witness // not the capacity of today, but that of the day allocatable was learned
	}
	return original{amounts{allocatable, capacity}, ours, taken == unexplained}, true
}

// untouched reports whether the numbers stand as stored on a node that shows no trace of an amplifier, so that they are measured,
// whoever writes. Where capacity is raised, too, an amplified number would fit into it: there it is left to the kubelet.
func (s sight) untouched() bool {
	return !s.damaged && !s.noted && !s.rate.raise && s.unchanged() && same(s.now.capacity, s.old.capacity) && plausible(s.now)
}

// unchanged reports whether allocatable is there and stands as stored.
func (s sight) unchanged() bool { return same(s.now.allocatable, s.old.allocatable) }

// mayGuess reports whether a number that nothing explains may give way to what we remember × rate: if it cannot be measured, which
// would be the true size, and if the node becomes no larger than it shows itself.
func (s sight) mayGuess(original original) bool {
	result, _ := s.rate.ratio.Amplify(*original.allocatable, s.name)
	return s.rate.amplifies() && !plausible(s.now) && result.Cmp(*s.now.allocatable) <= 0
}

func allocatableOf(a amounts) *resource.Quantity { return a.allocatable }
func capacityOf(a amounts) *resource.Quantity    { return a.capacity }

// raised tells whether we ever wrote this capacity.
func (s sight) raised() bool {
	return s.memory().result.capacity != nil || s.stored != nil && s.stored.result.capacity != nil
}

// verdict is what a number that arrives is taken for.
type verdict int

const (
	measured    verdict = iota // an original
	echo                       // our own result
	unexplained                // neither
)

// recall gives the original of one number, and what the number that arrived is taken for.
func (s sight) recall(of func(amounts) *resource.Quantity) (raw *resource.Quantity, taken verdict) {
	now, old, memory := of(s.now), of(s.old), s.memory()
	unchanged := same(now, old)
	switch {
	case s.mine != nil && s.mine.ratio.String() == s.rate.ratio.String() && same(now, of(s.mine.result)):
		return of(s.mine.raw), echo // what we wrote by the policy in force, perhaps a moment ago for this same request
	case s.stored != nil && unchanged && same(old, of(s.stored.result)):
		return of(s.stored.raw), echo
	case same(now, of(memory.result)):
		return of(memory.raw), echo
	case same(now, of(memory.raw)), s.canBeMeasured(unchanged):
		return now, measured
	}
	return of(memory.raw), unexplained
}

// canBeMeasured: the kubelet sends nothing else, unless it leaves the number out and another's stands there; others set an
// original if they change the number, but not to what no kubelet measures.
func (s sight) canBeMeasured(unchanged bool) bool {
	if s.kubelet {
		return !unchanged || plausible(s.now)
	}
	return !unchanged && (s.raised() || plausible(s.now))
}

// measuredAsStored reports whether allocatable, which stands as stored, as our result, is measured all the same: the kubelet left it
// out because it is equal. What it did not measure, such as a stale echo, does not fit into capacity.
func (s sight) measuredAsStored() bool {
	equal := s.sync == synced || s.sync == settled && s.mine == nil
	return s.kubelet && s.unchanged() && plausible(s.now) && (equal || s.hardwareGrew())
}

// hardwareGrew reports whether the kubelet brings a capacity that we neither remember nor wrote.
func (s sight) hardwareGrew() bool {
	m := s.memory()
	return s.now.capacity != nil && m.raw.capacity != nil && !same(s.now.capacity, s.old.capacity) &&
		!same(s.now.capacity, m.raw.capacity) && !same(s.now.capacity, m.result.capacity)
}

// says is what this resource says of the others: whether the kubelet brings an allocatable that is neither stored, nor our result, nor
// the original that we remember. The kubelet leaves our memory alone, so that one which differs from the stored one is what we learned
// from this very write, and our result stands in place of what was sent.
func (s sight) says() kubeletSync {
	if !s.kubelet || s.stored == nil {
		return silent
	}
	sent, said := s.now.allocatable, synced
	if s.mine == nil || !same(s.mine.raw.allocatable, s.stored.raw.allocatable) {
		said = settled
	}
	if s.mine != nil && same(sent, s.mine.result.allocatable) {
		sent = s.mine.raw.allocatable
	}
	if sent == nil || same(sent, s.old.allocatable) || same(sent, s.stored.raw.allocatable) || same(sent, s.stored.result.allocatable) {
		return silent
	}
	return said
}

// plausible tells whether amounts can be measured ones: a kubelet's allocatable is never above its capacity.
func plausible(a amounts) bool {
	return a.allocatable == nil || a.capacity == nil || a.allocatable.Cmp(*a.capacity) <= 0
}

// same compares by value, not by text; nothing is the same as nothing known.
func same(a, b *resource.Quantity) bool { return a != nil && b != nil && a.Cmp(*b) == 0 }

// write puts the result on the node: allocatable always, capacity where it is raised or was raised by us.
func (o original) write(node *admit.Node, name corev1.ResourceName, result amounts) {
	node.Allocatable().Set(name, *result.allocatable)
	switch {
	case result.capacity != nil:
		node.Capacity().Set(name, *result.capacity)
	case o.capacityIsOurs && o.capacity != nil:
		node.Capacity().Set(name, *o.capacity)
	}
}
