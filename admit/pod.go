package admit

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/document"
)

// Pod is the view of a core/v1 Pod.
type Pod struct{ Meta }

// AsPod views a document as a Pod.
func AsPod(d *document.Document) *Pod { return &Pod{Meta{d.Root()}} }

// Object is the whole typed pod with all edits so far. It costs a full decoding: for the rare step that wants it.
func (p *Pod) Object() corev1.Pod { return document.As[corev1.Pod](p.root) }

// Tolerations is spec.tolerations.
func (p *Pod) Tolerations() []corev1.Toleration {
	return document.As[[]corev1.Toleration](p.tolerations())
}

// AppendToleration adds a toleration at the end.
func (p *Pod) AppendToleration(t corev1.Toleration) { p.tolerations().Append(t) }

func (p *Pod) tolerations() *document.Value { return p.root.At("spec", "tolerations") }

// Containers are the init containers (sidecars are among them), then the containers. Ephemeral containers never stand in a
// pod that is created.
func (p *Pod) Containers() iter.Seq[*Container] {
	return func(yield func(*Container) bool) {
		for _, list := range []string{"initContainers", "containers"} {
			for v := range p.root.At("spec", list).Elements() {
				if !yield(&Container{v}) {
					return
				}
			}
		}
	}
}

// Container is the view of a container in a pod.
type Container struct{ root *document.Value }

// Name is the container's name.
func (c *Container) Name() string { return c.root.Get("name").Text() }

// Path is the container's field path.
func (c *Container) Path() *field.Path { return c.root.Path() }

// HasEnv tells whether the container's env sets a variable, by a value or from elsewhere. What envFrom brings is not seen.
func (c *Container) HasEnv(name string) bool { return c.root.Get("env").HasElement("name", name) }

// AppendEnv adds a variable at the end.
func (c *Container) AppendEnv(v corev1.EnvVar) { c.root.Get("env").Append(v) }

// MirrorPod tells whether the document is a mirror pod: the API server's picture of a static pod, which the kubelet runs
// whatever admission says, so that changing or refusing it only hides it.
func MirrorPod(d *document.Document) bool {
	return d.Root().At("metadata", "annotations", corev1.MirrorPodAnnotationKey).Exists()
}
