package admit

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// MaxContainers is the number of containers that a pod may have, including init and ephemeral containers. Kubernetes
// itself has no limit but the object size in etcd: with its status and managed fields a container takes 2 to 3 KB
// there, so some 500 fill the 1.5 MiB of one object. Real pods have a few dozen at most. Steps look at each container
// and may change ten of its fields.
const MaxContainers = 500

// The field paths of a pod's lists of containers.
var (
	ContainersPath     = field.NewPath("spec", "containers")
	InitContainersPath = field.NewPath("spec", "initContainers")
)

// The lists of a pod's containers, in the order in which they are read.
var (
	initLists    = []string{"initContainers"}
	regularLists = []string{"containers"}
	bothLists    = []string{"initContainers", "containers"}
	allLists     = []string{"initContainers", "containers", "ephemeralContainers"}
)

// InitContainers returns the init containers, including sidecars.
func (p *Pod) InitContainers() iter.Seq[*Container] { return p.containers(initLists) }

// RegularContainers returns the containers that are not init containers.
func (p *Pod) RegularContainers() iter.Seq[*Container] { return p.containers(regularLists) }

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

// ImagePath returns the field path of the container's image.
func (c *Container) ImagePath() *field.Path { return c.root.Get("image").Path() }

// Image returns the container's image.
func (c *Container) Image() string { return c.root.Get("image").Text() }
