package admit

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/document"
)

// Binding is the view of a core/v1 Binding: it sends the pod of its name to a node.
type Binding struct{ Meta }

// AsBinding views a document as a Binding.
func AsBinding(d *document.Document) *Binding { return &Binding{MetaOf(d.Root())} }

// Target is target.name: the node.
func (b *Binding) Target() string { return b.Root().At("target", "name").Text() }

// BindingTargetPath is the field path of a binding's node.
var BindingTargetPath = field.NewPath("target", "name")
