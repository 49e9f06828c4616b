// Package amplify multiplies the allocatable resources of a node without compounding, and remembers the original
// amounts in an annotation.
package amplify

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
)

// The steps overcommit and node-amplification share this algorithm.
//
// A nodes/status write carries either numbers that the kubelet measured or an echo of numbers that we wrote, and
// nothing in the request says which: most writers are not the kubelet, and the kubelet omits what it believes
// unchanged. So the original, our result and the ratio of each resource are stored in an annotation on the node, and a
// number is judged by comparing it with them:
//
//	what arrives                                          is treated as
//	the result we remember, or the stored one unchanged   an echo: the original stays, except in the next two cases
//	the same, and the kubelet sends a new original of     a new original, if it fits into capacity: the kubelet
//	another amplified resource                            measures all resources and omits what it finds stored
//	the same, and the kubelet sends a new capacity        a new original, if it fits (the hardware has grown to our
//	                                                      result)
//	the original we remember                              the original
//	anything else that this write changes                 a new original, unless it comes from another writer and is
//	                                                      above a kept capacity
//	anything else that this write leaves as stored        if it fits into capacity: from the kubelet a new original;
//	                                                      from another writer it passes unchanged, because it may be
//	                                                      the true size. If it does not fit: our result is written if
//	                                                      the node becomes no larger than it shows itself, else it
//	                                                      passes unchanged
//	nothing remembered, from the kubelet                  the original, if it fits into capacity
//	nothing remembered, from others, unchanged            the original, if it fits into a capacity that is kept, and
//	                                                      no annotation of another amplifier indicates otherwise
//	nothing remembered, anything else                     passes, with a warning
//
// Each resource is judged separately. For a number that passes, the remembered entry is kept. The ratio is always the
// current one: a new ratio takes effect with the next write of any writer. The limits of this method are described in
// docs/overcommit.md.

// Rate says how one resource of one node is amplified.
type Rate struct {
	Ratio quantity.Ratio
	By    string // where the ratio comes from
	Raise bool   // raise capacity with allocatable
	// Wanted is the ratio that the source sets, where Ratio may be lower because of the node's usage; else the zero Ratio.
	Wanted quantity.Ratio
	Note   string // for the audit log: why Ratio has its value
}

// amplifies reports whether there is anything to amplify, and so to remember.
func (r Rate) amplifies() bool { return r.Ratio.Amplifies() || r.Wanted.Amplifies() }

// Amplifier is a step that amplifies nodes.
type Amplifier struct {
	Step string // its name
	// Rate returns the rate of a resource. last is its entry before this write, or nil.
	Rate func(name corev1.ResourceName, last *Entry) Rate
	// Witness returns an entry from another source for a resource of which we remember nothing, or nil; noted is as in
	// Observation. Witness may be nil.
	Witness func(seen Observation) (found *Entry, noted bool)
}

// Amounts are the allocatable and the capacity of one resource; nil if unknown.
type Amounts struct {
	Allocatable, Capacity *resource.Quantity
}

// Amplify sets every amplifiable resource of a node to original × rate or, without a rate, back to its original. It
// returns the new annotation, and in lost the resources whose original is unknown: these are left unchanged, and so are
// their entries.
func (a Amplifier) Amplify(req *admit.Request, node *admit.Node) (next Annotation, lost []corev1.ResourceName) {
	next = Annotation{}
	for _, seen := range a.observe(req, node) {
		entry, known := a.amplifyOne(req, node, seen)
		if !known {
			lost = append(lost, seen.Name)
			entry = seen.entry()
		}
		if entry != nil || !known && seen.Damaged {
			next[seen.Name] = entry
		}
	}
	if len(lost) == 0 || next.explains() {
		next.write(node)
	}
	return next, lost
}

// observe returns the observations of a node's amplifiable resources, each with what the kubelet's write implies about
// all of them.
func (a Amplifier) observe(req *admit.Request, node *admit.Node) []Observation {
	old := admit.StoredNode(req)
	mine, stored, damaged := readAnnotations(node, old)
	all := make([]Observation, 0, len(Amplifiable()))
	sync := silent
	for _, name := range Amplifiable() {
		now := amountsOf(node, name)
		seen := Observation{
			Name: name, Now: now, old: amountsOf(old, name),
			mine: mine.of(name, now), stored: stored.of(name, now), kubelet: byKubelet(req, node), Damaged: damaged,
		}
		seen.Rate = a.Rate(name, seen.last(old != nil))
		sync = max(sync, seen.implies())
		if !seen.remembered() && a.Witness != nil {
			seen.stored, seen.noted = a.Witness(seen)
		}
		all = append(all, seen)
	}
	for i := range all {
		all[i].sync = sync
	}
	return all
}

// amplifyOne amplifies one resource. It returns the entry to remember, and whether the original is known.
func (a Amplifier) amplifyOne(req *admit.Request, node *admit.Node, seen Observation) (entry *Entry, known bool) {
	amplified := seen.Rate.amplifies()
	switch {
	case seen.Now.Allocatable == nil:
		if node.Allocatable().Has(seen.Name) {
			req.Tolerate("unreadable", "%s left as it is: status.allocatable is no quantity", seen.Name)
		}
		req.Explain("%s: status.allocatable has no amount", string(seen.Name))
		if amplified && seen.remembered() {
			return seen.entry(), true // the number may come back
		}
		return nil, true
	case !amplified && !seen.remembered() && seen.Damaged && seen.noted && !Plausible(seen.Now):
		reportUnknown(req, seen) // there is something to restore, but its entry cannot be read
		return nil, false
	case !amplified && !seen.remembered():
		req.Explain("%s: no ratio above 1 applies, and there is nothing to restore", string(seen.Name))
		return nil, true // nothing to amplify or to restore
	}
	original, known := seen.original()
	if !known || original.guessed && !seen.mayGuess(original) {
		reportUnknown(req, seen)
		return nil, false
	}
	result := Amounts{Allocatable: original.Allocatable}
	if amplified && original.Allocatable.Sign() > 0 {
		result = a.apply(req, seen.Name, original.Amounts, seen.Rate)
		entry = &Entry{Raw: original.Amounts, Result: result, Ratio: seen.Rate.Ratio, Wanted: seen.Rate.Wanted, by: seen.Rate.By}
	}
	original.write(node, seen.Name, result)
	return entry, true
}

// amountsOf returns the amounts of one resource of a node; a nil node has none.
func amountsOf(node *admit.Node, name corev1.ResourceName) (a Amounts) {
	if node == nil {
		return a
	}
	var (
		found     [2]resource.Quantity // in one allocation
		has, full bool
	)
	if found[0], has = node.Allocatable().Get(name); has {
		a.Allocatable = &found[0]
	}
	if found[1], full = node.Capacity().Get(name); full {
		a.Capacity = &found[1]
	}
	return a
}

// byKubelet reports whether the request comes from the node's own kubelet. Only the user name is checked: the API
// server authenticates nothing else by that name (Kubernetes documentation, "Using Node Authorization").
func byKubelet(req *admit.Request, node *admit.Node) bool {
	name := node.Name()
	return name != "" && req.UserInfo.Username == "system:node:"+name
}

// apply multiplies an original. If capacity is raised, the part reserved for the system, capacity - allocatable, stays
// the same.
func (a Amplifier) apply(req *admit.Request, name corev1.ResourceName, raw Amounts, r Rate) Amounts {
	allocatable, saturated := r.Ratio.Amplify(*raw.Allocatable, name)
	if saturated {
		req.Tolerate("saturated", "%s × %s of %s is beyond what a quantity holds and was cut", raw.Allocatable, r.Ratio, name)
	}
	result := Amounts{Allocatable: &allocatable}
	if r.Raise && raw.Capacity != nil {
		result.Capacity = raisedCapacity(name, raw, allocatable)
	}
	why := raw.Allocatable.String() + " × " + r.Ratio.String() + " = " + allocatable.String() + " by " + r.By + r.Note
	req.Audit(a.Step+"."+string(name), why)
	return result
}

func raisedCapacity(name corev1.ResourceName, raw Amounts, allocatable resource.Quantity) *resource.Quantity {
	sum := allocatable.DeepCopy()
	sum.Format = raw.Capacity.Format
	if raw.Capacity.Cmp(*raw.Allocatable) > 0 {
		sum.Add(*raw.Capacity)
		sum.Sub(*raw.Allocatable)
	}
	capacity, _ := quantity.Floor(sum, name)
	if capacity.Cmp(*raw.Capacity) < 0 {
		return raw.Capacity // the sum exceeds what a quantity can hold here
	}
	return &capacity
}

// reportUnknown reports that a node is left unchanged because its original is unknown.
func reportUnknown(req *admit.Request, seen Observation) {
	why := "no " + AnnotationKey + " annotation"
	switch {
	case seen.remembered():
		why = AnnotationKey + " does not explain it"
	case seen.Damaged:
		why = "annotation " + AnnotationKey + " is damaged"
	case seen.noted:
		why += ", and the original noted by another amplifier does not explain it"
	case seen.kubelet:
		why += ", allocatable above capacity"
	}
	req.Explain("%s left as it is: %s", string(seen.Name), why)
	req.Tolerate("original-unknown", "%s left as it is: %s; the kubelet's next status repairs it", seen.Name, why)
}

// Amplifiable returns the resources of a node that may be amplified: those that its pods share over time or that can be
// reclaimed.
func Amplifiable() []corev1.ResourceName { return amplifiable }

var amplifiable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
