package admit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/document"
)

// MaxContainers is how many containers a pod may have, init containers and ephemeral containers among them. Kubernetes itself has no
// limit but that of etcd: a container takes 2 to 3 KB there with its status and its managed fields, so that some 500 fill the 1.5 MiB
// of one object. Real pods have a few dozen at most; steps look at each container and may change ten fields of it.
const MaxContainers = 500

// containerLists is where the kinds that hold a pod have its containers, first those that an error is about.
var containerLists = map[string][][]string{
	"Pod": {{"spec", "containers"}, {"spec", "initContainers"}, {"spec", "ephemeralContainers"}},
	"Reservation": {{"spec", "template", "spec", "containers"}, {"spec", "template", "spec", "initContainers"},
		{"spec", "template", "spec", "ephemeralContainers"}},
}

// CheckBounds refuses a request whose object is larger than a chain should look at; nil if it is not. A stored object stays what it is:
// an update is refused only if it adds to what was above the bound already.
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
