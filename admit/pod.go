package admit

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/document/strategic"
)

// Pod is the view of a core/v1 Pod.
type Pod struct{ Meta }

// AsPod views a document as a Pod.
func AsPod(d *document.Document) *Pod { return &Pod{Meta{d.Root()}} }

// Phase returns status.phase.
func (p *Pod) Phase() corev1.PodPhase { return corev1.PodPhase(p.root.At("status", "phase").Text()) }

// Object returns the whole typed pod with all edits so far. It costs a full decoding; most steps need only parts.
func (p *Pod) Object() corev1.Pod { return document.As[corev1.Pod](p.root) }

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

// NodeNamePath is the field path of spec.nodeName.
var NodeNamePath = field.NewPath("spec", "nodeName")

// NodeName returns spec.nodeName; empty while the pod is not bound.
func (p *Pod) NodeName() string { return p.root.At("spec", "nodeName").Text() }

// ImagePullSecrets returns spec.imagePullSecrets.
func (p *Pod) ImagePullSecrets() []corev1.LocalObjectReference {
	return document.As[[]corev1.LocalObjectReference](p.root.At("spec", "imagePullSecrets"))
}

// AppendImagePullSecret adds a secret of the pod's namespace at the end.
func (p *Pod) AppendImagePullSecret(s corev1.LocalObjectReference) {
	p.root.At("spec", "imagePullSecrets").Append(s)
}

// RestartPolicy returns spec.restartPolicy; empty if it is not set, which stands for Always.
func (p *Pod) RestartPolicy() corev1.RestartPolicy {
	return corev1.RestartPolicy(p.root.At("spec", "restartPolicy").Text())
}

// SpecPath returns the field path of the spec; in a pod template it begins with the template's path.
func (p *Pod) SpecPath() *field.Path { return p.root.Get("spec").Path() }

// Merge applies a strategic merge patch to the pod. It returns an error if the patch does not apply to the pod.
func (p *Pod) Merge(patch *strategic.Patch) error { return strategic.Merge(p.root, patch) }

// Spec returns the whole typed spec with all edits so far. It costs a full decoding; most steps need only parts.
func (p *Pod) Spec() corev1.PodSpec { return document.As[corev1.PodSpec](p.root.Get("spec")) }

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
