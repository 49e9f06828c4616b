package amplify

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
)

// Observation is all that one nodes/status write shows of one resource.
type Observation struct {
	Name         corev1.ResourceName
	Now, old     Amounts
	mine, stored *Entry // the memory in the object and in the stored object; nil: none readable
	kubelet      bool
	Rate         Rate // what is wanted; the zero rate: nothing
	Damaged      bool // a memory is there that cannot be read
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
	Amounts
	capacityIsOurs bool
	// guessed: nothing explains the number that arrived, and the original is what we remember. It must not make the node larger
	// than it shows itself.
	guessed bool
}

func (s Observation) remembered() bool { return s.mine != nil || s.stored != nil }

// entry is the record to judge by: the object's own, else the stored one.
func (s Observation) entry() *Entry {
	if s.mine != nil {
		return s.mine
	}
	return s.stored
}

// last is what was remembered before this write. A writer may change the memory that it sends, so that the stored one counts.
func (s Observation) last(hasOld bool) *Entry {
	if hasOld {
		return s.stored
	}
	return s.mine
}

// original finds the amounts that the kubelet measured; false if nobody can know.
func (s Observation) original() (original, bool) {
	if !s.remembered() {
		return original{Amounts: s.Now}, s.kubelet && Plausible(s.Now) || s.untouched()
	}
	allocatable, taken := s.recall(allocatableOf)
	if taken == echo && s.measuredAsStored() {
		return original{Amounts: s.Now}, true
	}
	capacity, ours := s.Now.Capacity, false
	if s.raised() {
		var as verdict
		capacity, as = s.recall(capacityOf)
		ours = as != measured
	} else if witness := s.entry().Raw.Capacity; taken == echo && witness != nil {
		capacity = witness // not the capacity of today, but that of the day allocatable was learned
	}
	return original{Amounts{allocatable, capacity}, ours, taken == unexplained}, true
}

// untouched reports whether the numbers stand as stored on a node that shows no trace of an amplifier, so that they are measured,
// whoever writes. Where capacity is raised, too, an amplified number would fit into it: there it is left to the kubelet.
func (s Observation) untouched() bool {
	return !s.Damaged && !s.noted && !s.Rate.Raise && s.Unchanged() && Same(s.Now.Capacity, s.old.Capacity) && Plausible(s.Now)
}

// Unchanged reports whether allocatable is there and stands as stored.
func (s Observation) Unchanged() bool { return Same(s.Now.Allocatable, s.old.Allocatable) }

// mayGuess reports whether a number that nothing explains may give way to what we remember × rate: if it cannot be measured, which
// would be the true size, and if the node becomes no larger than it shows itself.
func (s Observation) mayGuess(original original) bool {
	result, _ := s.Rate.Ratio.Amplify(*original.Allocatable, s.Name)
	return s.Rate.amplifies() && !Plausible(s.Now) && result.Cmp(*s.Now.Allocatable) <= 0
}

func allocatableOf(a Amounts) *resource.Quantity { return a.Allocatable }
func capacityOf(a Amounts) *resource.Quantity    { return a.Capacity }

// raised reports whether we ever wrote this capacity.
func (s Observation) raised() bool {
	return s.entry().Result.Capacity != nil || s.stored != nil && s.stored.Result.Capacity != nil
}

// verdict is what a number that arrives is taken for.
type verdict int

const (
	measured    verdict = iota // an original
	echo                       // our own result
	unexplained                // neither
)

// recall gives the original of one number, and what the number that arrived is taken for.
func (s Observation) recall(of func(Amounts) *resource.Quantity) (raw *resource.Quantity, taken verdict) {
	now, old, Annotation := of(s.Now), of(s.old), s.entry()
	unchanged := Same(now, old)
	switch {
	case s.mine != nil && s.mine.Ratio.String() == s.Rate.Ratio.String() && Same(now, of(s.mine.Result)):
		return of(s.mine.Raw), echo // what we wrote by the policy in force, perhaps a moment ago for this same request
	case s.stored != nil && unchanged && Same(old, of(s.stored.Result)):
		return of(s.stored.Raw), echo
	case Same(now, of(Annotation.Result)):
		return of(Annotation.Raw), echo
	case Same(now, of(Annotation.Raw)), s.canBeMeasured(unchanged):
		return now, measured
	}
	return of(Annotation.Raw), unexplained
}

// canBeMeasured: the kubelet sends nothing else, unless it leaves the number out and another's stands there; others set an
// original if they change the number, but not to what no kubelet measures.
func (s Observation) canBeMeasured(unchanged bool) bool {
	if s.kubelet {
		return !unchanged || Plausible(s.Now)
	}
	return !unchanged && (s.raised() || Plausible(s.Now))
}

// measuredAsStored reports whether allocatable, which stands as stored, as our result, is measured all the same: the kubelet left it
// out because it is equal. What it did not measure, such as a stale echo, does not fit into capacity.
func (s Observation) measuredAsStored() bool {
	equal := s.sync == synced || s.sync == settled && s.mine == nil
	return s.kubelet && s.Unchanged() && Plausible(s.Now) && (equal || s.hardwareGrew())
}

// hardwareGrew reports whether the kubelet brings a capacity that we neither remember nor wrote.
func (s Observation) hardwareGrew() bool {
	m := s.entry()
	return s.Now.Capacity != nil && m.Raw.Capacity != nil && !Same(s.Now.Capacity, s.old.Capacity) &&
		!Same(s.Now.Capacity, m.Raw.Capacity) && !Same(s.Now.Capacity, m.Result.Capacity)
}

// says is what this resource says of the others: whether the kubelet brings an allocatable that is neither stored, nor our result, nor
// the original that we remember. The kubelet leaves our memory alone, so that one which differs from the stored one is what we learned
// from this very write, and our result stands in place of what was sent.
func (s Observation) says() kubeletSync {
	if !s.kubelet || s.stored == nil {
		return silent
	}
	sent, said := s.Now.Allocatable, synced
	if s.mine == nil || !Same(s.mine.Raw.Allocatable, s.stored.Raw.Allocatable) {
		said = settled
	}
	if s.mine != nil && Same(sent, s.mine.Result.Allocatable) {
		sent = s.mine.Raw.Allocatable
	}
	if sent == nil || Same(sent, s.old.Allocatable) || Same(sent, s.stored.Raw.Allocatable) || Same(sent, s.stored.Result.Allocatable) {
		return silent
	}
	return said
}

// Plausible reports whether amounts can be measured ones: a kubelet's allocatable is never above its capacity.
func Plausible(a Amounts) bool {
	return a.Allocatable == nil || a.Capacity == nil || a.Allocatable.Cmp(*a.Capacity) <= 0
}

// Same compares by value, not by text; nothing is the same as nothing known.
func Same(a, b *resource.Quantity) bool { return a != nil && b != nil && a.Cmp(*b) == 0 }

// write puts the result on the node: allocatable always, capacity where it is raised or was raised by us.
func (o original) write(node *admit.Node, name corev1.ResourceName, result Amounts) {
	node.Allocatable().Set(name, *result.Allocatable)
	switch {
	case result.Capacity != nil:
		node.Capacity().Set(name, *result.Capacity)
	case o.capacityIsOurs && o.Capacity != nil:
		node.Capacity().Set(name, *o.Capacity)
	}
}
