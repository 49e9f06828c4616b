package admit

import "usher.dev/usher/admit/document"

// Node is the view of a core/v1 Node.
type Node struct{ Meta }

// AsNode views a document as a Node.
func AsNode(d *document.Document) *Node { return &Node{Meta{d.Root()}} }

// StoredNode returns the request's old object as a Node; nil if it has none.
func StoredNode(req *Request) *Node {
	if req.OldObject == nil {
		return nil
	}
	return AsNode(req.OldObject)
}

// Allocatable returns status.allocatable: what pods may request.
func (n *Node) Allocatable() Resources { return Resources{n.root.At("status", "allocatable")} }

// Capacity returns status.capacity: what the hardware has.
func (n *Node) Capacity() Resources { return Resources{n.root.At("status", "capacity")} }
