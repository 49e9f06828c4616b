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
//	the result we remember, or the stored one unchanged       an echo: the original stays
//	the original we remember                                  the original
//	anything else that this write changes                     a new original, unless it is another's and above a kept capacity
//	anything else that this write leaves as stored            the kubelet's, if it fits into capacity: a new original
//	                                                          else unexplained: our result is written if that makes the node
//	                                                          no larger than it shows itself, or else it passes, forgotten
//	no readable memory                                        the kubelet's: the original; others': passes, with a warning
//	allocatable above capacity, without memory                amplified already: passes, with a warning
//	an echo, but the kubelet brings a new capacity            a new original (the hardware grew to our result)
//
// Resource by resource. What no rule can know is written down in docs/overcommit.md.

// amplifiable are the resources that may be amplified.
var amplifiable = api.Amplifiable()

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
	// witness gives a record of a resource of which we remember nothing, from elsewhere, or nil. The field itself may be nil.
	witness func(seen sight) *record
}

// amounts are allocatable and capacity of one resource; nil: not known.
type amounts struct {
	allocatable, capacity *resource.Quantity
}

// amplify brings every amplifiable resource of a node to original × rate; without a rate, back to its original. lost are the
// resources whose original nobody knows for now: they pass as they are.
func (a amplifier) amplify(req *admit.Request, node *admit.Node) (next memory, lost []corev1.ResourceName) {
	old := admit.StoredNode(req)
	mine, stored, damaged := readMemories(node, old)
	next = memory{}
	forget := true
	for _, name := range amplifiable {
		seen := sight{
			name: name, now: amountsOf(node, name), old: amountsOf(old, name),
			mine: mine.of(name, node), stored: stored.of(name, node), kubelet: byKubelet(req, node),
		}
		seen.rate = a.rate(name, seen.last(old != nil))
		if !seen.remembered() && a.witness != nil {
			seen.stored = a.witness(seen)
		}
		remember, known := a.amplifyOne(req, node, seen, damaged)
		if !known {
			lost = append(lost, name)
			forget = forget && seen.remembered() // what nobody explains and we do not either stays for a while
		}
		if remember != nil {
			next[name] = remember
		}
	}
	if forget || len(next) > 0 {
		next.write(node)
	}
	return next, lost
}

// amplifyOne does it for one resource. It gives what to remember, and whether the original is known.
func (a amplifier) amplifyOne(req *admit.Request, node *admit.Node, seen sight, damaged bool) (remember *record, known bool) {
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
	case !amplified && !seen.remembered():
		return nil, true // nothing to amplify or to restore
	}
	original, known := seen.original()
	if !known || original.guessed && (!amplified || enlarges(seen, original)) {
		tellUnknown(req, seen.name, seen, damaged)
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

// enlarges tells whether amplifying an original would make the node larger than it shows itself.
func enlarges(seen sight, original original) bool {
	result, _ := seen.rate.ratio.Amplify(*original.allocatable, seen.name)
	return result.Cmp(*seen.now.allocatable) > 0
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
func tellUnknown(req *admit.Request, name corev1.ResourceName, seen sight, damaged bool) {
	why := "no " + amplifiedAnnotation + " annotation"
	switch {
	case seen.remembered():
		why = amplifiedAnnotation + " does not explain it"
	case damaged:
		why = "annotation " + amplifiedAnnotation + " is damaged"
	case seen.kubelet:
		why += ", allocatable above capacity"
	}
	req.Trouble("original-unknown", "%s left as it is: %s; the kubelet's next status repairs it", name, why)
}
