package admit

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// Image is the view of a place of a pod that names an image: a container's image, or an image volume's reference.
type Image struct {
	root *document.Value
	list string // the list that it is in
	name string // of the container or volume
}

// Images returns the images of the containers, init containers, ephemeral containers and image volumes.
func (p *Pod) Images() iter.Seq[Image] {
	return func(yield func(Image) bool) {
		for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
			for c := range p.containers([]string{list}) {
				if !yield(Image{c.root.Get("image"), list, c.Name()}) {
					return
				}
			}
		}
		for v := range p.root.At("spec", "volumes").Elements() {
			if source := v.Get("image"); source.Exists() && !yield(Image{source.Get("reference"), "volumes", v.Get("name").Text()}) {
				return
			}
		}
	}
}

// Place identifies the place in the pod by its list and the name of the container or volume.
func (i Image) Place() string { return i.list + "/" + i.name }

// Reference returns the image; empty if it is not set.
func (i Image) Reference() string { return i.root.Text() }

// Path returns the field path of the image.
func (i Image) Path() *field.Path { return i.root.Path() }
