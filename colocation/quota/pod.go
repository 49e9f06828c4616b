package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Amount is an exact quantity of a resource.
type Amount = resource.Quantity

// Pod is the part of a pod that quotas depend on.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Node            string // empty until it is bound
	// Label is the value of api.LabelQuotaName; Labelled reports whether the label is set.
	Label    string
	Labelled bool
	// Requests is the request of the pod as the scheduler computes it, including Overhead.
	Requests, Overhead corev1.ResourceList
	// Replaced and ReplacedOverhead are the same after applying the annotation api.AnnotationReplaceResources; nil
	// without it.
	Replaced, ReplacedOverhead corev1.ResourceList
	// Ended reports that the pod succeeded or failed, and uses nothing any more.
	Ended bool
	// Gone is the time from which a pod that is being deleted no longer counts, whether its node confirms its end or
	// not; zero if the pod is not being deleted.
	Gone time.Time
}

// Counting determines what pods are charged for.
type Counting struct {
	IgnoreOverhead bool // gate ElasticQuotaIgnorePodOverhead
	Replace        bool // gates ElasticQuotaEvaluationTransformPod and ReplaceResourcesTransformer
}

// Charge returns what a pod counts for: nothing once it has ended.
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

// BindingKey is the part of a pod that determines its quota.
type BindingKey struct {
	Namespace string
	Label     string // the value of api.LabelQuotaName
	Labelled  bool   // whether the label is set, possibly to ""
}

// BindingKey returns the key of the pod.
func (p *Pod) BindingKey() BindingKey { return BindingKey{p.Namespace, p.Label, p.Labelled} }
