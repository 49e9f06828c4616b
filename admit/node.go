package admit

import (
	"slices"
	"strings"

	"usher.dev/usher/admit/document"
)

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

// ByKubelet reports whether a kubelet sent the request, of whichever node: the user name has the prefix that kubelets
// have (Kubernetes documentation, "Using Node Authorization").
func (r *Request) ByKubelet() bool { return strings.HasPrefix(r.UserInfo.Username, kubeletPrefix) }

// The API server authenticates a kubelet as system:node:NAME in the group system:nodes.
const kubeletPrefix, kubeletGroup = "system:node:", "system:nodes"

// ByKubeletOf reports whether the kubelet of the given node sent the request. It also checks the group, as the Node
// authorizer does.
func (r *Request) ByKubeletOf(node string) bool {
	name, ok := strings.CutPrefix(r.UserInfo.Username, kubeletPrefix)
	return ok && node != "" && name == node && slices.Contains(r.UserInfo.Groups, kubeletGroup)
}

// Allocatable returns status.allocatable: what pods may request.
func (n *Node) Allocatable() Resources { return Resources{n.root.At("status", "allocatable")} }

// Capacity returns status.capacity: what the hardware has.
func (n *Node) Capacity() Resources { return Resources{n.root.At("status", "capacity")} }
