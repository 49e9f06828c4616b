// Package amplify multiplies the numbers of a node without ever compounding them: what arrives, what it is taken for, what is remembered.
package amplify

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/quantity"
)

// Amplifying a node without ever compounding: what the steps overcommit and node-amplification share.
//
// A nodes/status write carries either numbers that the kubelet measured or an echo of numbers that we wrote, and nothing in
// the request says which: most writers are not the kubelet, and the kubelet leaves out what it believes unchanged. So the
// original, our result and the ratio of each resource stand in an annotation on the node, and a number is judged by them:
//
//	what arrives                                              is taken for
//	the result we remember, or the stored one unchanged       an echo: the original stays; but see the next two
//	the same, and the kubelet brings a new original of        a new original, if it fits into capacity: the kubelet measures all
//	another amplified resource                                and leaves out what it finds stored
//	the same, and the kubelet brings a new capacity           a new original, if it fits (the hardware grew to our result)
//	the original we remember                                  the original
//	anything else that this write changes                     a new original, unless it is another's and above a kept capacity
//	anything else that this write leaves as stored            fits into capacity: the kubelet's is a new original, another's passes
//	                                                          as it is, for it may be the true size; does not fit: our result is
//	                                                          written if the node becomes no larger than it shows itself, else it passes
//	no memory, from the kubelet                               the original, if it fits into capacity
//	no memory, from others, unchanged                         the original, if it fits into a capacity that is kept, and no annotation
//	                                                          of an amplifier tells otherwise
//	no memory, anything else                                  passes, with a warning
//
// Resource by resource. What passes keeps its memory. A ratio is that of the moment: a new one takes effect with anybody's write. What
// no rule can know is written down in docs/overcommit.md.

// Rate is how one resource of one node is amplified.
type Rate struct {
	Ratio quantity.Ratio
	By    string // where the ratio comes from
	Raise bool   // raise capacity with allocatable
	// Wanted is the ratio that the source asks for, where Ratio may be lower because of what the node uses; else the zero Ratio.
	Wanted quantity.Ratio
	Note   string // why ratio is what it is, for the audit log
}

// amplifies reports whether there is anything to do, and so to remember.
func (r Rate) amplifies() bool { return r.Ratio.Amplifies() || r.Wanted.Amplifies() }

// Amplifier is a step that amplifies nodes.
type Amplifier struct {
	Step string // its name
	// Rate returns the rate of a resource; last is what was remembered of it before this write, or nil.
	Rate func(name corev1.ResourceName, last *Entry) Rate
	// Witness returns an entry of a resource of which we remember nothing, from elsewhere, or nil; noted as in Observation. The field itself
	// may be nil.
	Witness func(seen Observation) (found *Entry, noted bool)
}

// Amounts are allocatable and capacity of one resource; nil: not known.
type Amounts struct {
	Allocatable, Capacity *resource.Quantity
}

// Amplify brings every amplifiable resource of a node to original × rate; without a rate, back to its original. lost are the
// resources whose original nobody knows for now: they pass as they are, and what is remembered of them stays.
func (a Amplifier) Amplify(req *admit.Request, node *admit.Node) (next Annotation, lost []corev1.ResourceName) {
	next = Annotation{}
	for _, seen := range a.look(req, node) {
		remember, known := a.amplifyOne(req, node, seen)
		if !known {
			lost = append(lost, seen.Name)
			remember = seen.entry()
		}
		if remember != nil || !known && seen.Damaged {
			next[seen.Name] = remember
		}
	}
	if len(lost) == 0 || next.explains() {
		next.write(node)
	}
	return next, lost
}

// look sees the amplifiable resources of a node, each for itself and then by what the kubelet says of the others.
func (a Amplifier) look(req *admit.Request, node *admit.Node) []Observation {
	old := admit.StoredNode(req)
	mine, stored, damaged := readAnnotations(node, old)
	all := make([]Observation, 0, len(Amplifiable()))
	said := silent
	for _, name := range Amplifiable() {
		seen := Observation{
			Name: name, Now: amountsOf(node, name), old: amountsOf(old, name),
			mine: mine.of(name, node), stored: stored.of(name, node), kubelet: byKubelet(req, node), Damaged: damaged,
		}
		seen.Rate = a.Rate(name, seen.last(old != nil))
		said = max(said, seen.says())
		if !seen.remembered() && a.Witness != nil {
			seen.stored, seen.noted = a.Witness(seen)
		}
		all = append(all, seen)
	}
	for i := range all {
		all[i].sync = said
	}
	return all
}

// amplifyOne does it for one resource. It gives what to remember, and whether the original is known.
func (a Amplifier) amplifyOne(req *admit.Request, node *admit.Node, seen Observation) (remember *Entry, known bool) {
	amplified := seen.Rate.amplifies()
	switch {
	case seen.Now.Allocatable == nil:
		if node.Allocatable().Has(seen.Name) {
			req.Trouble("unreadable", "%s left as it is: status.allocatable is no quantity", seen.Name)
		}
		if amplified && seen.remembered() {
			return seen.entry(), true // the number may come back
		}
		return nil, true
	case !amplified && !seen.remembered() && seen.Damaged && seen.noted && !Plausible(seen.Now):
		tellUnknown(req, seen) // there is something to restore, and what explains it cannot be read
		return nil, false
	case !amplified && !seen.remembered():
		return nil, true // nothing to amplify or to restore
	}
	original, known := seen.original()
	if !known || original.guessed && !seen.mayGuess(original) {
		tellUnknown(req, seen)
		return nil, false
	}
	result := Amounts{Allocatable: original.Allocatable}
	if amplified && original.Allocatable.Sign() > 0 {
		result = a.apply(req, seen.Name, original.Amounts, seen.Rate)
		remember = &Entry{Raw: original.Amounts, Result: result, Ratio: seen.Rate.Ratio, Wanted: seen.Rate.Wanted, by: seen.Rate.By}
	}
	original.write(node, seen.Name, result)
	return remember, true
}

// amountsOf reads one resource of a node; a nil node has none.
func amountsOf(node *admit.Node, name corev1.ResourceName) (a Amounts) {
	if node == nil {
		return a
	}
	if q, ok := node.Allocatable().Get(name); ok {
		a.Allocatable = &q
	}
	if q, ok := node.Capacity().Get(name); ok {
		a.Capacity = &q
	}
	return a
}

// byKubelet reports whether the node's own kubelet sends the request. The name is all that is asked for: the API server gives
// it to nobody but that kubelet (Kubernetes documentation, "Using Node Authorization").
func byKubelet(req *admit.Request, node *admit.Node) bool {
	name := node.Name()
	return name != "" && req.UserInfo.Username == "system:node:"+name
}

// apply multiplies an original. What the system reserves, capacity - allocatable, stays the same when capacity is raised.
func (a Amplifier) apply(req *admit.Request, name corev1.ResourceName, raw Amounts, r Rate) Amounts {
	allocatable, saturated := r.Ratio.Amplify(*raw.Allocatable, name)
	if saturated {
		req.Trouble("saturated", "%s × %s of %s is beyond what a quantity holds and was cut", raw.Allocatable, r.Ratio, name)
	}
	result := Amounts{Allocatable: &allocatable}
	if r.Raise && raw.Capacity != nil {
		result.Capacity = raisedCapacity(name, raw, allocatable)
	}
	req.Audit(a.Step+"."+string(name), raw.Allocatable.String()+" × "+r.Ratio.String()+" = "+allocatable.String()+" by "+r.By+r.Note)
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
		return raw.Capacity // it is more than usher counts to
	}
	return &capacity
}

// tellUnknown says that a node is left as it is because nobody knows its original.
func tellUnknown(req *admit.Request, seen Observation) {
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
	req.Trouble("original-unknown", "%s left as it is: %s; the kubelet's next status repairs it", seen.Name, why)
}

// Amplifiable are the resources of a node that may be amplified: those that its pods share by time or by reclaim.
func Amplifiable() []corev1.ResourceName { return amplifiable }

var amplifiable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
