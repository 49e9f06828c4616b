package admit

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// The field paths of a pod's lists of containers.
var (
	ContainersPath     = field.NewPath("spec", "containers")
	InitContainersPath = field.NewPath("spec", "initContainers")
)

// The lists of a pod's containers, in the order in which they are read.
var (
	initLists      = []string{"initContainers"}
	regularLists   = []string{"containers"}
	ephemeralLists = []string{"ephemeralContainers"}
	bothLists      = []string{"initContainers", "containers"}
	allLists       = []string{"initContainers", "containers", "ephemeralContainers"}
)

// InitContainers returns the init containers, including sidecars.
func (p *Pod) InitContainers() iter.Seq[*Container] { return p.containers(initLists) }

// RegularContainers returns the containers that are not init containers.
func (p *Pod) RegularContainers() iter.Seq[*Container] { return p.containers(regularLists) }

// EphemeralContainers returns the containers that were added to a running pod, by the subresource ephemeralcontainers.
func (p *Pod) EphemeralContainers() iter.Seq[*Container] { return p.containers(ephemeralLists) }

// AllContainers returns the init containers, the containers and the ephemeral containers.
func (p *Pod) AllContainers() iter.Seq[*Container] { return p.containers(allLists) }

// Containers returns the init containers (including sidecars), then the containers. A pod cannot be created with
// ephemeral containers.
func (p *Pod) Containers() iter.Seq[*Container] { return p.containers(bothLists) }

func (p *Pod) containers(lists []string) iter.Seq[*Container] {
	return func(yield func(*Container) bool) {
		for _, list := range lists {
			values := p.root.At("spec", list).List()
			views := make([]Container, len(values)) // in one allocation
			for i, v := range values {
				views[i].root = v
				if v.Kind() != 0 && !yield(&views[i]) { // a removed one has no kind
					return
				}
			}
		}
	}
}

// InsertContainer inserts a container before one of the regular containers; nil: at the end.
func (p *Pod) InsertContainer(before *Container, c corev1.Container) {
	p.insert("containers", before, c)
}

// InsertInitContainer inserts an init container before one of the init containers; nil: at the end.
func (p *Pod) InsertInitContainer(before *Container, c corev1.Container) {
	p.insert("initContainers", before, c)
}

func (p *Pod) insert(list string, before *Container, c corev1.Container) {
	if at := p.root.At("spec", list); before == nil {
		at.Append(c)
	} else {
		at.InsertBefore(before.root, c)
	}
}

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

// RestartPolicyPath returns the field path of the container's restartPolicy.
func (c *Container) RestartPolicyPath() *field.Path { return c.root.Get("restartPolicy").Path() }

// Sidecar reports whether an init container keeps running alongside the containers.
func (c *Container) Sidecar() bool {
	return c.root.Get("restartPolicy").Text() == string(corev1.ContainerRestartPolicyAlways)
}

// HasEnv reports whether the container's env sets a variable, by a value or by a reference. Variables from envFrom are
// not considered.
func (c *Container) HasEnv(name string) bool { return c.root.Get("env").HasElement("name", name) }

// AppendEnv adds a variable at the end.
func (c *Container) AppendEnv(v corev1.EnvVar) {
	if env := c.root.Get("env"); v.Name != "" && v.ValueFrom == nil {
		env.AppendTexts(document.TextMember{Key: "name", Text: v.Name}, document.TextMember{Key: "value", Text: v.Value})
	} else {
		env.Append(v)
	}
}

// ImagePath returns the field path of the container's image.
func (c *Container) ImagePath() *field.Path { return c.root.Get("image").Path() }

// Image returns the container's image.
func (c *Container) Image() string { return c.root.Get("image").Text() }

// SetImage sets the container's image.
func (c *Container) SetImage(image string) { c.root.Get("image").SetText(image) }

// ImagePullPolicy returns when the kubelet pulls the image; empty if it is not set.
func (c *Container) ImagePullPolicy() corev1.PullPolicy {
	return corev1.PullPolicy(c.root.Get("imagePullPolicy").Text())
}

// SetImagePullPolicy sets when the kubelet pulls the image.
func (c *Container) SetImagePullPolicy(policy corev1.PullPolicy) {
	c.root.Get("imagePullPolicy").SetText(string(policy))
}

// Command returns the command, which replaces the entry point of the image.
func (c *Container) Command() []string { return document.As[[]string](c.root.Get("command")) }

// SetCommand sets the command; without words it removes the command.
func (c *Container) SetCommand(words ...string) { setPart(c.root.Get("command"), words) }

// Args returns the arguments of the command.
func (c *Container) Args() []string { return document.As[[]string](c.root.Get("args")) }

// SetArgs sets the arguments of the command; without words it removes them.
func (c *Container) SetArgs(words ...string) { setPart(c.root.Get("args"), words) }

// Ports returns the ports that the container declares.
func (c *Container) Ports() []corev1.ContainerPort {
	return document.As[[]corev1.ContainerPort](c.root.Get("ports"))
}

// AppendPort adds a port at the end.
func (c *Container) AppendPort(p corev1.ContainerPort) { c.root.Get("ports").Append(p) }

// ProbeKind is the field of a container that holds a probe.
type ProbeKind string

// The probes of a container.
const (
	LivenessProbe  ProbeKind = "livenessProbe"
	ReadinessProbe ProbeKind = "readinessProbe"
	StartupProbe   ProbeKind = "startupProbe"
)

// Probe returns one of the container's probes; nil if it is not set.
func (c *Container) Probe(kind ProbeKind) *corev1.Probe {
	return document.As[*corev1.Probe](c.root.Get(string(kind)))
}

// SetProbe sets one of the container's probes; nil removes it.
func (c *Container) SetProbe(kind ProbeKind, probe *corev1.Probe) {
	setPart(c.root.Get(string(kind)), probe)
}
