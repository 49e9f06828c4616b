package admit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// MaxContainers is the number of containers that a pod may have, including init and ephemeral containers. Kubernetes
// itself has no limit but the object size in etcd: with its status and managed fields a container takes 2 to 3 KB
// there, so some 500 fill the 1.5 MiB of one object. Real pods have a few dozen at most. Steps look at each container
// and may change ten of its fields.
const MaxContainers = 500

// containerLists maps each kind that holds a pod to the paths of its container lists. Errors are reported at the first
// path.
var containerLists = map[string][][]string{
	"Pod": {{"spec", "containers"}, {"spec", "initContainers"}, {"spec", "ephemeralContainers"}},
	"Reservation": {{"spec", "template", "spec", "containers"}, {"spec", "template", "spec", "initContainers"},
		{"spec", "template", "spec", "ephemeralContainers"}},
}

// CheckBounds returns an error if the object is larger than a chain should process, else nil. Stored objects are
// accepted: an update is refused only if it adds to an object that is already above the bound.
func CheckBounds(req *Request) *field.Error {
	lists := containerLists[req.Kind.Kind]
	if lists == nil || req.Object == nil {
		return nil
	}
	n := countAll(req.Object, lists)
	if n <= MaxContainers || req.OldObject != nil && n <= countAll(req.OldObject, lists) {
		return nil
	}
	path := field.NewPath(lists[0][0], lists[0][1:]...)
	return &field.Error{Type: field.ErrorTypeTooMany, Field: path.String(), BadValue: n, Detail: fmt.Sprintf(
		"a pod may have at most %d containers, init containers and ephemeral containers together; spread them over several pods", MaxContainers)}
}

func countAll(d *document.Document, lists [][]string) (n int) {
	for _, list := range lists {
		n += d.SentSize(list...)
	}
	return n
}
