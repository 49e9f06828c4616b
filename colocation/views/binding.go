// Package views has the views of the kinds that only the colocation suite reviews.
package views

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// Binding is the view of a core/v1 Binding, which binds the pod of the same name to a node.
type Binding struct{ admit.Meta }

// AsBinding views a document as a Binding.
func AsBinding(d *document.Document) *Binding { return &Binding{admit.MetaOf(d.Root())} }

// Target returns target.name, the name of the node.
func (b *Binding) Target() string { return b.Root().At("target", "name").Text() }

// BindingTargetPath is the field path of the node of a binding.
var BindingTargetPath = field.NewPath("target", "name")
