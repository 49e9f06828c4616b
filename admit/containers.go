package admit

import (
	"iter"
	"slices"
	"strings"

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

// Env is the variables that a container's env sets, by name.
type Env map[string]document.Raw

// Env returns the variables that the container's env sets.
func (c *Container) Env() Env {
	env := Env{}
	for _, v := range c.root.Get("env").RawElements() {
		if name := v.Member("name").Text(); !env[name].Exists() {
			env[name] = v
		}
	}
	return env
}

// Has reports whether a variable is set.
func (e Env) Has(name string) bool { return e[name].Exists() }

// Differs reports whether a variable of the name of want is set to something else, like Container.Differs.
func (e Env) Differs(want corev1.EnvVar) bool {
	if !e.Has(want.Name) {
		return false
	}
	own, err := document.Parse(e[want.Name].Bytes())
	if err != nil {
		return true
	}
	defer own.Release()
	return len(own.Root().Differs(want, resources)) > 0
}

// AddEnv sets those of some variables that the container's env does not set. They come first, in their order, so that the
// container's own values may refer to them; but those whose values refer to a variable of the container come last. Variables
// from envFrom are not known here: env takes precedence over them.
func (c *Container) AddEnv(all []corev1.EnvVar) {
	refers := slices.ContainsFunc(all, func(v corev1.EnvVar) bool { return strings.Contains(v.Value, "$(") })
	has, own := c.HasEnv, Env(nil)
	if refers || len(all) > 1 {
		own = c.Env()
		has = own.Has
	}
	var last []corev1.EnvVar
	for _, v := range all {
		switch {
		case has(v.Name):
		case refers && own.references(v.Value):
			own[v.Name] = document.Raw{} // what refers to it comes last, too
			last = append(last, v)
		default:
			c.insertEnv(v, true)
		}
	}
	for _, v := range last {
		c.insertEnv(v, false)
	}
}

// references reports whether Kubernetes replaces a part of a value by one of the variables.
func (e Env) references(value string) bool {
	for _, rest, _ := strings.Cut(value, "$"); rest != ""; _, rest, _ = strings.Cut(value, "$") {
		if value = rest[1:]; rest[0] != '(' {
			continue // "$$" is a dollar sign that begins no reference
		}
		name, after, closed := strings.Cut(value, ")")
		if _, known := e[name]; known && closed {
			return true
		}
		value = after
	}
	return false
}

func (c *Container) insertEnv(v corev1.EnvVar, first bool) {
	env, plain := c.root.Get("env"), v.ValueFrom == nil
	name, value := document.TextMember{Key: "name", Text: v.Name}, document.TextMember{Key: "value", Text: v.Value}
	switch {
	case plain && first:
		env.PrependTexts(name, value)
	case plain:
		env.AppendTexts(name, value)
	case first:
		env.Prepend(v)
	default:
		env.Append(v)
	}
}
