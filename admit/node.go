package admit

import (
	"usher.dev/usher/document"
)

// Node is the view of a core/v1 Node.
type Node struct{ Meta }

// AsNode views a document as a Node.
func AsNode(d *document.Document) *Node { return &Node{Meta{d.Root()}} }

// Allocatable is status.allocatable: what pods may ask for.
func (n *Node) Allocatable() Resources { return Resources{n.root.At("status", "allocatable")} }

// Capacity is status.capacity: what the hardware has.
func (n *Node) Capacity() Resources { return Resources{n.root.At("status", "capacity")} }
