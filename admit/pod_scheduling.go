package admit

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/document/strategic"
)

// NodeTerms returns the terms of the required node affinity, of which a node must match at least one.
func (p *Pod) NodeTerms() iter.Seq[*NodeTerm] {
	return func(yield func(*NodeTerm) bool) {
		for v := range p.nodeTerms().Elements() {
			if !yield(&NodeTerm{v}) {
				return
			}
		}
	}
}

// AppendNodeTerm adds a term at the end, as an alternative to the others.
func (p *Pod) AppendNodeTerm(t corev1.NodeSelectorTerm) { p.nodeTerms().Append(t) }

func (p *Pod) nodeTerms() *document.Value {
	return p.root.At("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
}

// NodeTerm is the view of one term. A node must match all of its requirements; an empty term matches no node.
type NodeTerm struct{ root *document.Value }

// Term returns the whole typed term.
func (t *NodeTerm) Term() corev1.NodeSelectorTerm {
	return document.As[corev1.NodeSelectorTerm](t.root)
}

// AppendExpression adds a requirement on the node's labels at the end.
func (t *NodeTerm) AppendExpression(r corev1.NodeSelectorRequirement) {
	t.root.Get("matchExpressions").Append(r)
}

// SetSchedulerName sets spec.schedulerName.
func (p *Pod) SetSchedulerName(name string) { p.root.At("spec", "schedulerName").SetText(name) }

// ResourceClaims returns spec.resourceClaims.
func (p *Pod) ResourceClaims() []corev1.PodResourceClaim {
	return document.As[[]corev1.PodResourceClaim](p.root.At("spec", "resourceClaims"))
}

// PriorityPath is the field path of spec.priority.
var PriorityPath = field.NewPath("spec", "priority")

// Priority returns spec.priority; nil if it is not set.
func (p *Pod) Priority() *int32 { return document.As[*int32](p.root.At("spec", "priority")) }

// PriorityClassName returns spec.priorityClassName.
func (p *Pod) PriorityClassName() string { return p.root.At("spec", "priorityClassName").Text() }

// PriorityClassNamePath returns the field path of spec.priorityClassName; in a pod template it begins with the
// template's path.
func (p *Pod) PriorityClassNamePath() *field.Path {
	return p.root.At("spec", "priorityClassName").Path()
}

// SetPriority sets the name of a PriorityClass together with what the API server's Priority plugin expects with it: the
// class's value and its preemption policy. A nil policy removes the field.
func (p *Pod) SetPriority(class string, value int32, preemption *corev1.PreemptionPolicy) {
	p.root.At("spec", "priorityClassName").SetText(class)
	p.root.At("spec", "priority").Set(value)
	if policy := p.root.At("spec", "preemptionPolicy"); preemption == nil {
		policy.Remove()
	} else {
		policy.SetText(string(*preemption))
	}
}

// NodeSelector returns spec.nodeSelector.
func (p *Pod) NodeSelector() map[string]string { return Texts(p.root.At("spec", "nodeSelector")) }

// OS returns the operating system that the pod is for: spec.os.name, or else its node selector for that; empty without both.
func (p *Pod) OS() string {
	return cmp.Or(p.root.At("spec", "os", "name").Text(), p.root.At("spec", "nodeSelector", corev1.LabelOSStable).Text())
}

// HostNetwork returns spec.hostNetwork.
func (p *Pod) HostNetwork() bool { return document.As[bool](p.root.At("spec", "hostNetwork")) }

// SetNodeSelector sets one label that a node must have.
func (p *Pod) SetNodeSelector(key, value string) {
	p.root.At("spec", "nodeSelector", key).SetText(value)
}

// NodeSelectorPath returns the field path of one label that a node must have; in a pod template it begins with the
// template's path.
func (p *Pod) NodeSelectorPath(key string) *field.Path {
	return p.root.At("spec", "nodeSelector").Path().Key(key)
}

// BestEffort reports whether the pod is of QoS class BestEffort: by its status if that has a class, else because it
// requests and limits no cpu or memory.
func (p *Pod) BestEffort() bool {
	if class := p.root.At("status", "qosClass").Text(); class != "" {
		return corev1.PodQOSClass(class) == corev1.PodQOSBestEffort
	}
	if whole := p.Resources(); whole.ofPod() {
		return !whole.asksForCompute()
	}
	for c := range p.Containers() {
		if c.Resources().asksForCompute() {
			return false
		}
	}
	return true
}

// ofPod reports whether resources of a pod as a whole are set: cpu, memory or huge pages. Only then do they decide its QoS class, since
// Kubernetes 1.37.
func (r Requirements) ofPod() bool {
	for _, list := range []Resources{r.Requests(), r.Limits()} {
		for name := range list.All() {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				return true
			}
		}
	}
	return false
}

// asksForCompute reports whether cpu or memory are requested or limited, to more than zero.
func (r Requirements) asksForCompute() bool {
	for _, list := range []Resources{r.Requests(), r.Limits()} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := list.Get(name); ok && q.Sign() > 0 {
				return true
			}
		}
	}
	return false
}

// Edit decodes the whole pod, lets change modify it, and records what differs as edits: for fields for which there is no
// view. Fields that the typed pod does not know are kept, also in elements of lists. If the pod does not decode, change
// is not called. It costs a full decoding, a copy and a comparison.
func (p *Pod) Edit(change func(*corev1.Pod)) {
	before := p.Object()
	if p.root.Err() != nil {
		return
	}
	after := before.DeepCopy()
	change(after)
	document.Record(p.root, before, *after)
}

// ImagePullSecrets returns spec.imagePullSecrets.
func (p *Pod) ImagePullSecrets() []corev1.LocalObjectReference {
	return document.As[[]corev1.LocalObjectReference](p.root.At("spec", "imagePullSecrets"))
}

// AppendImagePullSecret adds a secret of the pod's namespace at the end.
func (p *Pod) AppendImagePullSecret(s corev1.LocalObjectReference) {
	p.root.At("spec", "imagePullSecrets").Append(s)
}

// Merge applies a strategic merge patch to the pod. It returns an error if the patch does not apply to the pod.
func (p *Pod) Merge(patch *strategic.Patch) error { return strategic.Merge(p.root, patch) }

// SameSpec reports whether the spec, as it was sent, is that of another pod.
func (p *Pod) SameSpec(other *Pod) bool {
	return document.SameRaw(p.root.Get("spec").Raw(), other.root.Get("spec").Raw())
}

// Asking returns the part of the typed spec that says which resources the pod requests, and which node. It costs a
// fraction of Spec.
func (p *Pod) Asking() corev1.PodSpec {
	return corev1.PodSpec{
		NodeName:       p.NodeName(),
		InitContainers: asking(p.InitContainers()), Containers: asking(p.RegularContainers()),
		Overhead:  document.As[corev1.ResourceList](p.root.At("spec", "overhead")),
		Resources: document.As[*corev1.ResourceRequirements](p.root.At("spec", "resources")),
	}
}

func asking(containers iter.Seq[*Container]) (all []corev1.Container) {
	for c := range containers {
		all = append(all, corev1.Container{
			Name:          c.Name(),
			Resources:     document.As[corev1.ResourceRequirements](c.root.Get("resources")),
			RestartPolicy: document.As[*corev1.ContainerRestartPolicy](c.root.Get("restartPolicy")),
		})
	}
	return all
}

// Allocation returns the part of the typed status that says what the node has allocated for the pod and given to its
// containers, whether it calls a resize infeasible, and the phase. It costs a fraction of decoding the status.
func (p *Pod) Allocation() corev1.PodStatus {
	status := p.root.Get("status")
	return corev1.PodStatus{
		Phase: p.Phase(), ObservedGeneration: document.As[int64](status.Get("observedGeneration")), Conditions: resizePending(status),
		InitContainerStatuses: allocations(status.Get("initContainerStatuses")), ContainerStatuses: allocations(status.Get("containerStatuses")),
		AllocatedResources: document.As[corev1.ResourceList](status.Get("allocatedResources")),
		Resources:          document.As[*corev1.ResourceRequirements](status.Get("resources")),
	}
}

func allocations(statuses *document.Value) (all []corev1.ContainerStatus) {
	for s := range statuses.Elements() {
		all = append(all, corev1.ContainerStatus{
			Name:               s.Get("name").Text(),
			AllocatedResources: document.As[corev1.ResourceList](s.Get("allocatedResources")),
			Resources:          document.As[*corev1.ResourceRequirements](s.Get("resources")),
		})
	}
	return all
}

// resizePending returns the conditions of a status that say why a resize waits.
func resizePending(status *document.Value) []corev1.PodCondition {
	conditions := document.As[[]corev1.PodCondition](status.Get("conditions"))
	return slices.DeleteFunc(conditions, func(c corev1.PodCondition) bool { return c.Type != corev1.PodResizePending })
}

// Overhead returns spec.overhead: what the container runtime itself needs (RuntimeClass).
func (p *Pod) Overhead() Resources { return Resources{p.root.At("spec", "overhead")} }

// Resources returns spec.resources: requirements of the pod as a whole (KEP-2837).
func (p *Pod) Resources() Requirements { return Requirements{p.root.At("spec", "resources")} }
