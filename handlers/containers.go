package handlers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// containerLists maps each kind that holds a pod to the paths of its container lists. Errors are reported at the first
// path.
var containerLists = map[string][][]string{
	"Pod": {{"spec", "containers"}, {"spec", "initContainers"}, {"spec", "ephemeralContainers"}},
	"Reservation": {{"spec", "template", "spec", "containers"}, {"spec", "template", "spec", "initContainers"},
		{"spec", "template", "spec", "ephemeralContainers"}},
}

// checkContainers returns an error if the object has more containers than a chain should process, else nil. Stored objects are
// accepted: an update is refused only if it adds to an object that is already above the bound.
func checkContainers(req *admit.Request) *field.Error {
	lists := containerLists[req.Kind.Kind]
	if lists == nil || req.Object == nil {
		return nil
	}
	n := countAll(req.Object, lists)
	if n <= admit.MaxContainers || req.OldObject != nil && n <= countAll(req.OldObject, lists) {
		return nil
	}
	path := field.NewPath(lists[0][0], lists[0][1:]...)
	return &field.Error{Type: field.ErrorTypeTooMany, Field: path.String(), BadValue: n, Detail: fmt.Sprintf(
		"a pod may have at most %d containers, init containers and ephemeral containers together; spread them over several pods", admit.MaxContainers)}
}

func countAll(d *document.Document, lists [][]string) (n int) {
	for _, list := range lists {
		n += d.SentSize(list...)
	}
	return n
}
