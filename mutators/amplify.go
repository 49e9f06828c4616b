package mutators

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
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

// rate is how one resource of one node is amplified.
type rate struct {
	ratio api.Ratio
	by    string // where the ratio comes from
	raise bool   // raise capacity with allocatable
	// wanted is the ratio that the source asks for, where ratio may be lower because of what the node uses; else the zero Ratio.
	wanted api.Ratio
	note   string // why ratio is what it is, for the audit log
}

// amplifies tells whether there is anything to do, and so to remember.
func (r rate) amplifies() bool { return r.ratio.Amplifies() || r.wanted.Amplifies() }

// amplifier is a step that amplifies nodes.
type amplifier struct {
	step string // its name
	// rate gives the rate of a resource; last is what was remembered of it before this write, or nil.
	rate func(name corev1.ResourceName, last *record) rate
	// witness gives a record of a resource of which we remember nothing, from elsewhere, or nil; noted as in sight. The field itself
	// may be nil.
	witness func(seen sight) (found *record, noted bool)
}

// amounts are allocatable and capacity of one resource; nil: not known.
type amounts struct {
	allocatable, capacity *resource.Quantity
}

// amplify brings every amplifiable resource of a node to original × rate; without a rate, back to its original. lost are the
// resources whose original nobody knows for now: they pass as they are, and what is remembered of them stays.
func (a amplifier) amplify(req *admit.Request, node *admit.Node) (next memory, lost []corev1.ResourceName) {
	next = memory{}
	for _, seen := range a.look(req, node) {
		remember, known := a.amplifyOne(req, node, seen)
		if !known {
			lost = append(lost, seen.name)
			remember = seen.memory()
		}
		if remember != nil || !known && seen.damaged {
			next[seen.name] = remember
		}
	}
	if len(lost) == 0 || next.explains() {
		next.write(node)
	}
	return next, lost
}

// look sees the amplifiable resources of a node, each for itself and then by what the kubelet says of the others.
func (a amplifier) look(req *admit.Request, node *admit.Node) []sight {
	old := admit.StoredNode(req)
	mine, stored, damaged := readMemories(node, old)
	all := make([]sight, 0, len(api.Amplifiable()))
	said := silent
	for _, name := range api.Amplifiable() {
		seen := sight{
			name: name, now: amountsOf(node, name), old: amountsOf(old, name),
			mine: mine.of(name, node), stored: stored.of(name, node), kubelet: byKubelet(req, node), damaged: damaged,
		}
		seen.rate = a.rate(name, seen.last(old != nil))
		said = max(said, seen.says())
		if !seen.remembered() && a.witness != nil {
			seen.stored, seen.noted = a.witness(seen)
		}
		all = append(all, seen)
	}
	for i := range all {
		all[i].sync = said
	}
	return all
}

// amplifyOne does it for one resource. It gives what to remember, and whether the original is known.
func (a amplifier) amplifyOne(req *admit.Request, node *admit.Node, seen sight) (remember *record, known bool) {
	amplified := seen.rate.amplifies()
	switch {
	case seen.now.allocatable == nil:
		if node.Allocatable().Has(seen.name) {
			req.Trouble("unreadable", "%s left as it is: status.allocatable is no quantity", seen.name)
		}
		if amplified && seen.remembered() {
			return seen.memory(), true // the number may come back
		}
		return nil, true
	case !amplified && !seen.remembered() && seen.damaged && seen.noted && !plausible(seen.now):
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
	result := amounts{allocatable: original.allocatable}
	if amplified && original.allocatable.Sign() > 0 {
		result = a.apply(req, seen.name, original.amounts, seen.rate)
		remember = &record{raw: original.amounts, result: result, ratio: seen.rate.ratio, wanted: seen.rate.wanted, by: seen.rate.by}
	}
	original.write(node, seen.name, result)
	return remember, true
}

// amountsOf reads one resource of a node; a nil node has none.
func amountsOf(node *admit.Node, name corev1.ResourceName) (a amounts) {
	if node == nil {
		return a
	}
	if q, ok := node.Allocatable().Get(name); ok {
		a.allocatable = &q
	}
	if q, ok := node.Capacity().Get(name); ok {
		a.capacity = &q
	}
	return a
}

// byKubelet tells whether the node's own kubelet sends the request. The name is all that is asked for: the API server gives
// it to nobody but that kubelet (Kubernetes documentation, "Using Node Authorization").
func byKubelet(req *admit.Request, node *admit.Node) bool {
	name := node.Name()
	return name != "" && req.UserInfo.Username == "system:node:"+name
}

// apply multiplies an original. What the system reserves, capacity - allocatable, stays the same when capacity is raised.
func (a amplifier) apply(req *admit.Request, name corev1.ResourceName, raw amounts, r rate) amounts {
	allocatable, saturated := r.ratio.Amplify(*raw.allocatable, name)
	if saturated {
		req.Trouble("saturated", "%s × %s of %s is beyond what a quantity holds and was cut", raw.allocatable, r.ratio, name)
	}
	result := amounts{allocatable: &allocatable}
	if r.raise && raw.capacity != nil {
		result.capacity = raisedCapacity(name, raw, allocatable)
	}
	req.Audit(a.step+"."+string(name), raw.allocatable.String()+" × "+r.ratio.String()+" = "+allocatable.String()+" by "+r.by+r.note)
	return result
}

func raisedCapacity(name corev1.ResourceName, raw amounts, allocatable resource.Quantity) *resource.Quantity {
	sum := allocatable.DeepCopy()
	sum.Format = raw.capacity.Format
	if raw.capacity.Cmp(*raw.allocatable) > 0 {
		sum.Add(*raw.capacity)
		sum.Sub(*raw.allocatable)
	}
	capacity, _ := api.Floor(sum, name)
	if capacity.Cmp(*raw.capacity) < 0 {
		return raw.capacity // it is more than usher counts to
	}
	return &capacity
}

// tellUnknown says that a node is left as it is because nobody knows its original.
func tellUnknown(req *admit.Request, seen sight) {
	why := "no " + amplifiedAnnotation + " annotation"
	switch {
	case seen.remembered():
		why = amplifiedAnnotation + " does not explain it"
	case seen.damaged:
		why = "annotation " + amplifiedAnnotation + " is damaged"
	case seen.noted:
		why += ", and the original noted by another amplifier does not explain it"
	case seen.kubelet:
		why += ", allocatable above capacity"
	}
	req.Trouble("original-unknown", "%s left as it is: %s; the kubelet's next status repairs it", seen.name, why)
}
