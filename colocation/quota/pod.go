package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
)

// Amount is an exact quantity of a resource.
type Amount = resource.Quantity

// Pod is the part of a pod that quotas depend on.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Node            string // empty until it is bound
	Label           string // the value of api.LabelQuotaName
	// Requests is the request of the pod as the scheduler computes it, including its overhead.
	Requests corev1.ResourceList
	// Held holds the amounts that the node of the pod keeps for it; nil if they equal the requests, as for nearly all pods.
	Held *Held
	// Special holds what few pods have; nil if this one has none of it.
	Special *Special
	// Labelled reports that the label of Label is set.
	Labelled bool
	// Ended reports that the pod succeeded or failed, and uses nothing any more.
	Ended bool
	// Unreported reports that the pod has a node, which has not reported yet what it has allocated for each container, or
	// for the current generation of the pod. It may have taken up more than the spec requests now.
	Unreported bool
}

// Special is the part of a Pod that few pods have. It is apart because the size of a pod counts: there are many.
type Special struct {
	Overhead corev1.ResourceList
	// Replaced and ReplacedOverhead are the requests and the overhead after applying the annotation
	// api.AnnotationReplaceResources; nil without it.
	Replaced, ReplacedOverhead corev1.ResourceList
	// Devices are the devices that the pod claims, by the annotation api.AnnotationDeviceClaims; nil without it.
	Devices corev1.ResourceList
	// Gone is the time from which a pod that is being deleted no longer counts, whether its node confirms its end or
	// not; zero if the pod is not being deleted.
	Gone time.Time
}

// special returns the rarely set fields; the zero value if the pod has none.
func (p *Pod) special() Special {
	if p.Special == nil {
		return Special{}
	}
	return *p.Special
}

// Gone returns the time from which a pod that is being deleted no longer counts; zero if the pod is not being deleted.
func (p *Pod) Gone() time.Time { return p.special().Gone }

// Held describes what a node holds for a pod whose spec requests something else: while a resize waits or is not carried
// out.
type Held struct {
	// Requests and Replaced are like the fields of Pod, computed from the spec and the status, as in the scheduler.
	Requests, Replaced corev1.ResourceList
	// Unsettled reports that the status calls a resize infeasible, but not the resize to the current spec, or does not say
	// what is allocated for each container. Until the node has answered, the spec counts too.
	Unsettled bool
}

// Counting determines what pods are charged for.
type Counting struct {
	IgnoreOverhead bool // gate ElasticQuotaIgnorePodOverhead
	Allocated      bool // gate QuotaByAllocatedResources
	Replace        bool // gates ElasticQuotaEvaluationTransformPod and ReplaceResourcesTransformer
	Devices        bool // gate QuotaByDeviceClasses
}

// CountingOf returns what feature gates determine.
func CountingOf(gates gate.Set) Counting {
	return Counting{
		IgnoreOverhead: gates.On(api.GateElasticQuotaIgnorePodOverhead),
		Allocated:      gates.On(api.GateQuotaByAllocatedResources),
		Devices:        gates.On(api.GateQuotaByDeviceClasses),
		Replace:        gates.On(api.GateElasticQuotaEvaluationTransformPod) && gates.On(api.GateReplaceResourcesTransformer),
	}
}

// Charge returns what a pod counts for: nothing once it has ended.
func (c Counting) Charge(p *Pod) corev1.ResourceList {
	switch {
	case p.Ended:
		return nil
	case !c.Allocated || p.Held == nil:
		return c.Asked(p)
	}
	list, asked := p.Held.Requests, p.Requests
	if c.replaces(p) {
		list, asked = p.Held.Replaced, p.special().Replaced
	}
	if p.Held.Unsettled {
		list = quantity.Larger(list, asked)
	}
	return c.withDevices(p, c.withoutOverhead(p, list))
}

// Asked returns what a pod would count for by its spec alone.
func (c Counting) Asked(p *Pod) corev1.ResourceList {
	switch {
	case p.Ended:
		return nil
	case c.replaces(p):
		return c.withDevices(p, c.withoutOverhead(p, p.special().Replaced))
	}
	return c.withDevices(p, c.withoutOverhead(p, p.Requests))
}

// withDevices returns the list with the devices that the pod claims, if they count.
func (c Counting) withDevices(p *Pod, list corev1.ResourceList) corev1.ResourceList {
	devices := p.special().Devices
	if !c.Devices || len(devices) == 0 {
		return list
	}
	more := list.DeepCopy()
	if more == nil {
		more = corev1.ResourceList{}
	}
	quantity.AddTo(more, devices)
	return more
}

// replaces reports whether a pod counts as its annotation says.
func (c Counting) replaces(p *Pod) bool { return c.Replace && p.special().Replaced != nil }

// withoutOverhead returns the list without the overhead of the pod if that does not count.
func (c Counting) withoutOverhead(p *Pod, list corev1.ResourceList) corev1.ResourceList {
	overhead := p.special().Overhead
	if c.replaces(p) {
		overhead = p.special().ReplacedOverhead
	}
	if !c.IgnoreOverhead || len(overhead) == 0 {
		return list
	}
	less := list.DeepCopy()
	for name, amount := range overhead {
		left := less[name]
		left.Sub(amount)
		less[name] = left
	}
	return less
}

// BindingKey is the part of a pod that determines its quota.
type BindingKey struct {
	Namespace string
	Label     string // the value of api.LabelQuotaName
	Labelled  bool   // whether the label is set, possibly to ""
}

// BindingKey returns the key of the pod.
func (p *Pod) BindingKey() BindingKey { return BindingKey{p.Namespace, p.Label, p.Labelled} }
