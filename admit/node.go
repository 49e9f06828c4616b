package admit

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/api"
	"usher.dev/usher/document"
)

// Node is the view of a core/v1 Node.
type Node struct{ Meta }

// AsNode views a document as a Node.
func AsNode(d *document.Document) *Node { return &Node{Meta{d.Root()}} }

// Allocatable is status.allocatable of one resource; false if it is missing or no quantity.
func (n *Node) Allocatable(name corev1.ResourceName) (resource.Quantity, bool) {
	return quantity(n.allocatable(name))
}

// HasAllocatable tells whether status.allocatable names a resource, by a quantity or not.
func (n *Node) HasAllocatable(name corev1.ResourceName) bool { return n.allocatable(name).Exists() }

// SetAllocatable sets status.allocatable of one resource. The same amount, however it is written, is no edit.
func (n *Node) SetAllocatable(name corev1.ResourceName, q resource.Quantity) {
	setQuantity(n.allocatable(name), q)
}

// Capacity is status.capacity of one resource; false if it is missing or no quantity.
func (n *Node) Capacity(name corev1.ResourceName) (resource.Quantity, bool) {
	return quantity(n.capacity(name))
}

// SetCapacity sets status.capacity of one resource, as SetAllocatable does.
func (n *Node) SetCapacity(name corev1.ResourceName, q resource.Quantity) {
	setQuantity(n.capacity(name), q)
}

func (n *Node) allocatable(name corev1.ResourceName) *document.Value {
	return n.root.At("status", "allocatable", string(name))
}

func (n *Node) capacity(name corev1.ResourceName) *document.Value {
	return n.root.At("status", "capacity", string(name))
}

// quantity reads a string, or a bare number as hand-written samples and patches have it.
func quantity(v *document.Value) (resource.Quantity, bool) {
	if !v.Exists() {
		return resource.Quantity{}, false
	}
	text := string(v.Bytes())
	if text[0] == '"' {
		text = v.Text()
	}
	q, err := api.ParseQuantity(text)
	return q, err == nil
}

func setQuantity(v *document.Value, q resource.Quantity) {
	if now, ok := quantity(v); !ok || now.Cmp(q) != 0 {
		v.Set(q.String())
	}
}
