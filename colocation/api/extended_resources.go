package api

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit/document"
)

// ExtendedResourceSpec is the JSON of AnnotationExtendedResourceSpec: the batch resources of a pod, by container.
type ExtendedResourceSpec struct {
	Containers map[string]ExtendedResourceContainer `json:"containers,omitempty"`
}

// ExtendedResourceContainer is the part of an ExtendedResourceSpec for one container.
type ExtendedResourceContainer struct {
	Limits   ResourceList `json:"limits,omitempty"`
	Requests ResourceList `json:"requests,omitempty"`
}

// Text returns what json.Marshal returns. It is written for each pod with batch resources, and reflection took a fifteenth
// of its review.
func (s ExtendedResourceSpec) Text() string {
	if len(s.Containers) == 0 {
		return "{}"
	}
	b := append(make([]byte, 0, 512), `{"containers":`...)
	return string(append(appendObject(b, s.Containers, appendContainer), '}'))
}

func appendContainer(b []byte, c ExtendedResourceContainer) []byte {
	b = append(b, '{')
	if len(c.Limits) > 0 {
		b = appendObject(append(b, `"limits":`...), c.Limits, appendQuantity)
	}
	if len(c.Limits) > 0 && len(c.Requests) > 0 {
		b = append(b, ',')
	}
	if len(c.Requests) > 0 {
		b = appendObject(append(b, `"requests":`...), c.Requests, appendQuantity)
	}
	return append(b, '}')
}

func appendQuantity(b []byte, q resource.Quantity) []byte { return document.AppendText(b, q.String()) }

// appendObject appends a map in the order of its keys.
func appendObject[K ~string, V any](b []byte, members map[K]V, appendTo func([]byte, V) []byte) []byte {
	var room [8]K // most maps fit in it
	keys := room[:0]
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTo(append(document.AppendText(b, string(key)), ':'), members[key])
	}
	return append(b, '}')
}
