package admit

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/document"
	"usher.dev/usher/document/strategic"
)

// Pod is the view of a core/v1 Pod.
type Pod struct{ Meta }

// AsPod views a document as a Pod.
func AsPod(d *document.Document) *Pod { return &Pod{Meta{d.Root()}} }

// Phase returns status.phase.
func (p *Pod) Phase() corev1.PodPhase { return corev1.PodPhase(p.root.At("status", "phase").Text()) }

// Object returns the whole typed pod with all edits so far. It costs a full decoding; most steps need only parts.
func (p *Pod) Object() corev1.Pod { return document.As[corev1.Pod](p.root) }

// NodeNamePath is the field path of spec.nodeName.
var NodeNamePath = field.NewPath("spec", "nodeName")

// NodeName returns spec.nodeName; empty while the pod is not bound.
func (p *Pod) NodeName() string { return p.root.At("spec", "nodeName").Text() }

// Tolerations returns spec.tolerations.
func (p *Pod) Tolerations() []corev1.Toleration {
	return document.As[[]corev1.Toleration](p.tolerations())
}

// AppendToleration adds a toleration at the end.
func (p *Pod) AppendToleration(t corev1.Toleration) { p.tolerations().Append(t) }

func (p *Pod) tolerations() *document.Value { return p.root.At("spec", "tolerations") }

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

// SchedulerName returns spec.schedulerName.
func (p *Pod) SchedulerName() string { return p.root.At("spec", "schedulerName").Text() }

// SetSchedulerName sets spec.schedulerName.
func (p *Pod) SetSchedulerName(name string) { p.root.At("spec", "schedulerName").Set(name) }

// PriorityPath is the field path of spec.priority.
var PriorityPath = field.NewPath("spec", "priority")

// Priority returns spec.priority; nil if it is not set.
func (p *Pod) Priority() *int32 { return document.As[*int32](p.root.At("spec", "priority")) }

// PriorityClassName returns spec.priorityClassName.
func (p *Pod) PriorityClassName() string { return p.root.At("spec", "priorityClassName").Text() }

// SetPriority sets the name of a PriorityClass together with what the API server's Priority plugin expects with it: the
// class's value and its preemption policy. A nil policy removes the field.
func (p *Pod) SetPriority(class string, value int32, preemption *corev1.PreemptionPolicy) {
	p.root.At("spec", "priorityClassName").Set(class)
	p.root.At("spec", "priority").Set(value)
	if policy := p.root.At("spec", "preemptionPolicy"); preemption == nil {
		policy.Remove()
	} else {
		policy.Set(*preemption)
	}
}

// ContainersPath is the field path of spec.containers.
var ContainersPath = field.NewPath("spec", "containers")

// PriorityClassNamePath returns the field path of spec.priorityClassName; in a pod template it begins with the
// template's path.
func (p *Pod) PriorityClassNamePath() *field.Path {
	return p.root.At("spec", "priorityClassName").Path()
}

// SpecPath returns the field path of the spec; in a pod template it begins with the template's path.
func (p *Pod) SpecPath() *field.Path { return p.root.Get("spec").Path() }

// Merge applies a strategic merge patch to the pod. It returns an error if the patch does not apply to the pod.
func (p *Pod) Merge(patch *strategic.Patch) error { return strategic.Merge(p.root, patch) }

// Spec returns the whole typed spec with all edits so far. It costs a full decoding; most steps need only parts.
func (p *Pod) Spec() corev1.PodSpec { return document.As[corev1.PodSpec](p.root.Get("spec")) }

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

// Overhead returns spec.overhead: what the container runtime itself needs (RuntimeClass).
func (p *Pod) Overhead() Resources { return Resources{p.root.At("spec", "overhead")} }

// Resources returns spec.resources: requirements of the pod as a whole (KEP-2837).
func (p *Pod) Resources() Requirements { return Requirements{p.root.At("spec", "resources")} }

// InitContainers returns the init containers, including sidecars.
func (p *Pod) InitContainers() iter.Seq[*Container] { return p.containers("initContainers") }

// RegularContainers returns the containers that are not init containers.
func (p *Pod) RegularContainers() iter.Seq[*Container] { return p.containers("containers") }

func (p *Pod) containers(lists ...string) iter.Seq[*Container] {
	return func(yield func(*Container) bool) {
		for _, list := range lists {
			for v := range p.root.At("spec", list).Elements() {
				if !yield(&Container{v}) {
					return
				}
			}
		}
	}
}

// Containers returns the init containers (including sidecars), then the containers. A pod cannot be created with
// ephemeral containers.
func (p *Pod) Containers() iter.Seq[*Container] { return p.containers("initContainers", "containers") }

// Container is the view of a container in a pod.
type Container struct{ root *document.Value }

// Name returns the container's name.
func (c *Container) Name() string { return c.root.Get("name").Text() }

// Path returns the container's field path.
func (c *Container) Path() *field.Path { return c.root.Path() }

// Resources returns the resource requirements of the container.
func (c *Container) Resources() Requirements { return Requirements{c.root.Get("resources")} }

// Request returns the container's request of a resource; false if it has none. A limit without a request counts as the
// request: the API server sets this default before admission, but a hand-written review may lack it.
func (c *Container) Request(name corev1.ResourceName) (resource.Quantity, bool) {
	if requests := c.Resources().Requests(); requests.Exists() && requests.Has(name) {
		return requests.Get(name)
	}
	if limits := c.Resources().Limits(); limits.Exists() {
		return limits.Get(name)
	}
	return resource.Quantity{}, false
}

// Sidecar reports whether an init container keeps running alongside the containers.
func (c *Container) Sidecar() bool {
	return c.root.Get("restartPolicy").Text() == string(corev1.ContainerRestartPolicyAlways)
}

// Path returns the field path of a resource in the list.
func (r Resources) Path(name corev1.ResourceName) *field.Path { return r.at(name).Path() }

// HasEnv reports whether the container's env sets a variable, by a value or by a reference. Variables from envFrom are
// not considered.
func (c *Container) HasEnv(name string) bool { return c.root.Get("env").HasElement("name", name) }

// AppendEnv adds a variable at the end.
func (c *Container) AppendEnv(v corev1.EnvVar) { c.root.Get("env").Append(v) }

// MirrorPod reports whether the request comes from a kubelet and is about a mirror pod of its own node. A mirror pod is
// the API server's image of a static pod, which the kubelet runs whatever admission decides, so changing or refusing it
// would only hide it. The annotation alone is no proof: the API server accepts it from any user who sets spec.nodeName.
func (r *Request) MirrorPod() bool {
	if !r.ByKubelet() {
		return false
	}
	pod := AsPod(r.Object)
	return r.ByKubeletOf(pod.NodeName()) && pod.annotation(corev1.MirrorPodAnnotationKey).Exists()
}
