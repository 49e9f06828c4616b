package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Amount is a quantity of a resource, exact.
type Amount = resource.Quantity

// Pod is what is kept of a pod to count it.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Node            string // empty while it is not bound
	// Label is the value of api.LabelQuotaName, and Labelled whether the label is there.
	Label    string
	Labelled bool
	// Requests is what the pod asks for as the scheduler counts, with Overhead in it.
	Requests, Overhead corev1.ResourceList
	// Replaced and ReplacedOverhead are the same after the pod's annotation api.AnnotationReplaceResources; nil without that annotation.
	Replaced, ReplacedOverhead corev1.ResourceList
	// Ended: it succeeded or failed, and holds nothing any more.
	Ended bool
	// Gone is when a pod that is being deleted stops to count, whether its node tells or not; zero if it is not being deleted.
	Gone time.Time
}

// Counting says how pods are counted.
type Counting struct {
	IgnoreOverhead bool // gate ElasticQuotaIgnorePodOverhead
	Replace        bool // gates ElasticQuotaEvaluationTransformPod and ReplaceResourcesTransformer
}

// Charge is what a pod counts for: nothing once it has ended.
func (c Counting) Charge(p *Pod) corev1.ResourceList {
	if p.Ended {
		return nil
	}
	list, Exceeds := p.Requests, p.Overhead
	if c.Replace && p.Replaced != nil {
		list, Exceeds = p.Replaced, p.ReplacedOverhead
	}
	if !c.IgnoreOverhead || len(Exceeds) == 0 {
		return list
	}
	less := list.DeepCopy()
	for name, amount := range Exceeds {
		left := less[name]
		left.Sub(amount)
		less[name] = left
	}
	return less
}

// BindingKey is what decides which quota a pod belongs to.
type BindingKey struct {
	Namespace string
	Label     string // the value of api.LabelQuotaName
	Labelled  bool   // whether the label is there, empty or not
}

// BindingKey is the pod's.
func (p *Pod) BindingKey() BindingKey { return BindingKey{p.Namespace, p.Label, p.Labelled} }
