package admit

import (
	"slices"
	"strings"

	"usher.dev/usher/document"
)

// Node is the view of a core/v1 Node.
type Node struct{ Meta }

// AsNode views a document as a Node.
func AsNode(d *document.Document) *Node { return &Node{Meta{d.Root()}} }

// StoredNode is the request's old object as a Node; nil if it has none.
func StoredNode(req *Request) *Node {
	if req.OldObject == nil {
		return nil
	}
	return AsNode(req.OldObject)
}

// ByKubelet reports whether a kubelet sends the request, the node's own or another's: users of that name are kubelets (Kubernetes
// documentation, "Using Node Authorization").
func (r *Request) ByKubelet() bool { return strings.HasPrefix(r.UserInfo.Username, kubeletPrefix) }

// kubeletPrefix and kubeletGroup are how the API server knows kubelets: system:node:NAME in group system:nodes.
const kubeletPrefix, kubeletGroup = "system:node:", "system:nodes"

// ByKubeletOf reports whether the kubelet of that node sends the request, with the group that the Node authorizer asks for, too.
func (r *Request) ByKubeletOf(node string) bool {
	name, ok := strings.CutPrefix(r.UserInfo.Username, kubeletPrefix)
	return ok && node != "" && name == node && slices.Contains(r.UserInfo.Groups, kubeletGroup)
}

// Allocatable is status.allocatable: what pods may ask for.
func (n *Node) Allocatable() Resources { return Resources{n.root.At("status", "allocatable")} }

// Capacity is status.capacity: what the hardware has.
func (n *Node) Capacity() Resources { return Resources{n.root.At("status", "capacity")} }
