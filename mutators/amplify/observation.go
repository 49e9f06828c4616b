package amplify

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
)

// Observation describes one resource in one write of nodes/status.
type Observation struct {
	Name         corev1.ResourceName
	Now, old     Amounts
	mine, stored *Entry // the entries in the object and in the stored object; nil if there is none that can be read
	kubelet      bool
	Rate         Rate // the desired rate; zero if the resource is not amplified
	Damaged      bool // there is an annotation that cannot be read
	noted        bool // another source has an original, but it explains nothing
	// sync says what the kubelet's write implies about the other resources.
	sync kubeletSync
}

// kubeletSync says whether a number that the kubelet omitted has been measured as equal to the stored one. This is so
// if its write has a new original of any amplified resource: then it has compared everything it measures with what is
// stored.
type kubeletSync int

const (
	silent kubeletSync = iota // unknown
	synced
	settled // synced, but this write has already been judged: it is a reinvocation, and what is remembered now is the result
)

// originalAmounts holds the amounts of a resource before amplification.
type originalAmounts struct {
	Amounts
	capacityIsOurs bool // the capacity that arrived was raised by us
	// guessed means that nothing explains the number that arrived, and the original is the remembered one. It must not
	// make the node larger than it shows itself.
	guessed bool
}

func (s Observation) remembered() bool { return s.mine != nil || s.stored != nil }

// entry returns the entry to judge by: the object's own if there is one, else the stored one.
func (s Observation) entry() *Entry {
	if s.mine != nil {
		return s.mine
	}
	return s.stored
}

// last returns what was remembered before this write. The stored entry counts, because a writer may change the
// annotation in its request.
func (s Observation) last(hasOld bool) *Entry {
	if hasOld {
		return s.stored
	}
	return s.mine
}

// original returns the amounts that the kubelet measured; false if they cannot be known.
func (s Observation) original() (originalAmounts, bool) {
	if !s.remembered() {
		return originalAmounts{Amounts: s.Now}, s.kubelet && Plausible(s.Now) || s.untouched()
	}
	allocatable, taken := s.recall(allocatableOf)
	if taken == echo && s.measuredAsStored() {
		return originalAmounts{Amounts: s.Now}, true
	}
	capacity, ours := s.Now.Capacity, false
	if s.raised() {
		var as verdict
		capacity, as = s.recall(capacityOf)
		ours = as != measured
	} else if noted := s.entry().Raw.Capacity; taken == echo && noted != nil {
		capacity = noted // the capacity at the time allocatable was measured, not the current one
	}
	return originalAmounts{Amounts{allocatable, capacity}, ours, taken == unexplained}, true
}

// untouched reports whether the numbers are unchanged on a node without any trace of an amplifier. Then they are
// measured, independently of the writer. If the rate also raises capacity, an amplified number would fit into it, so the decision is
// left to the kubelet's writes.
func (s Observation) untouched() bool {
	return !s.Damaged && !s.noted && !s.Rate.Raise && s.Unchanged() && Same(s.Now.Capacity, s.old.Capacity) && Plausible(s.Now)
}

// Unchanged reports whether allocatable is present and equal to the stored one.
func (s Observation) Unchanged() bool { return Same(s.Now.Allocatable, s.old.Allocatable) }

// mayGuess reports whether an unexplained number may be replaced by the remembered original × rate: it must be
// implausible as a measured one (which would be the true size), and the node must not become larger than it shows
// itself.
func (s Observation) mayGuess(o originalAmounts) bool {
	result, _ := s.Rate.Ratio.Amplify(*o.Allocatable, s.Name)
	return s.Rate.amplifies() && !Plausible(s.Now) && result.Cmp(*s.Now.Allocatable) <= 0
}

func allocatableOf(a Amounts) *resource.Quantity { return a.Allocatable }
func capacityOf(a Amounts) *resource.Quantity    { return a.Capacity }

// raised reports whether we have ever written this capacity.
func (s Observation) raised() bool {
	return s.entry().Result.Capacity != nil || s.stored != nil && s.stored.Result.Capacity != nil
}

// verdict says how a number that arrives is treated.
type verdict int

const (
	measured    verdict = iota // an original
	echo                       // our own result
	unexplained                // neither
)

// recall returns the original of one number, and how the number that arrived is treated.
func (s Observation) recall(of func(Amounts) *resource.Quantity) (raw *resource.Quantity, taken verdict) {
	now, old, entry := of(s.Now), of(s.old), s.entry()
	unchanged := Same(now, old)
	switch {
	case s.mine != nil && s.mine.Ratio.String() == s.Rate.Ratio.String() && Same(now, of(s.mine.Result)):
		return of(s.mine.Raw), echo // written by us under the current policy, perhaps just now in this same request
	case s.stored != nil && unchanged && Same(old, of(s.stored.Result)):
		return of(s.stored.Raw), echo
	case Same(now, of(entry.Result)):
		return of(entry.Raw), echo
	case Same(now, of(entry.Raw)), s.canBeMeasured(unchanged):
		return now, measured
	}
	return of(entry.Raw), unexplained
}

// canBeMeasured reports whether a number that matches no entry can be an original. The kubelet sends only measured
// numbers, but where it omits one, a number of another writer may be stored. Other writers set an original if they
// change the number to a measurable one.
func (s Observation) canBeMeasured(unchanged bool) bool {
	if s.kubelet {
		return !unchanged || Plausible(s.Now)
	}
	return !unchanged && (s.raised() || Plausible(s.Now))
}

// measuredAsStored reports whether the stored allocatable, which equals our result, has also been measured: the kubelet
// omitted it because it is equal. A number that it did not measure, such as a stale echo, does not fit into capacity.
func (s Observation) measuredAsStored() bool {
	equal := s.sync == synced || s.sync == settled && s.mine == nil
	return s.kubelet && s.Unchanged() && Plausible(s.Now) && (equal || s.hardwareGrew())
}

// hardwareGrew reports whether the kubelet sends a capacity that we have neither remembered nor written.
func (s Observation) hardwareGrew() bool {
	m := s.entry()
	return s.Now.Capacity != nil && m.Raw.Capacity != nil && !Same(s.Now.Capacity, s.old.Capacity) &&
		!Same(s.Now.Capacity, m.Raw.Capacity) && !Same(s.Now.Capacity, m.Result.Capacity)
}

// implies returns what the write of this resource implies about the others: synced or settled if the kubelet sends an
// allocatable that is neither the stored one, nor our result, nor the remembered original. The kubelet does not change
// our annotation, so an entry that differs from the stored one was learned from this very write, and our result has
// replaced what was sent.
func (s Observation) implies() kubeletSync {
	if !s.kubelet || s.stored == nil {
		return silent
	}
	sent, sync := s.Now.Allocatable, synced
	if s.mine == nil || !Same(s.mine.Raw.Allocatable, s.stored.Raw.Allocatable) {
		sync = settled
	}
	if s.mine != nil && Same(sent, s.mine.Result.Allocatable) {
		sent = s.mine.Raw.Allocatable
	}
	if sent == nil || Same(sent, s.old.Allocatable) || Same(sent, s.stored.Raw.Allocatable) || Same(sent, s.stored.Result.Allocatable) {
		return silent
	}
	return sync
}

// Plausible reports whether amounts can be measured ones: a kubelet's allocatable is never above its capacity.
func Plausible(a Amounts) bool {
	return a.Allocatable == nil || a.Capacity == nil || a.Allocatable.Cmp(*a.Capacity) <= 0
}

// Same reports whether two quantities are known and equal in value.
func Same(a, b *resource.Quantity) bool { return a != nil && b != nil && a.Cmp(*b) == 0 }

// write sets the result on the node: allocatable always, capacity if it is raised or had been raised by us.
func (o originalAmounts) write(node *admit.Node, name corev1.ResourceName, result Amounts) {
	node.Allocatable().Set(name, *result.Allocatable)
	switch {
	case result.Capacity != nil:
		node.Capacity().Set(name, *result.Capacity)
	case o.capacityIsOurs && o.Capacity != nil:
		node.Capacity().Set(name, *o.Capacity)
	}
}
