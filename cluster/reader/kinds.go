package reader

import (
	"net/url"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of objects, and the resource under which an API server has them.
type Kind struct {
	schema.GroupVersionKind
	Resource string
}

// NewKind returns a kind with its resource.
func NewKind(group, version, kind, resource string) Kind {
	return Kind{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, resource}
}

// path returns the path of the collection, in a namespace or, if that is "", in all of them.
func (k Kind) path(namespace string) string {
	path := GroupPath(k.Group) + "/" + k.Version
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + k.Resource
}

// GroupPath returns the path of the API of a group.
func GroupPath(group string) string {
	if group == "" {
		return "/api"
	}
	return "/apis/" + group
}
