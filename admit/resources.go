package admit

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/document"
	"usher.dev/usher/quantity"
)

// Resources is the view of a resource list: requests, limits, overhead, allocatable or capacity.
type Resources struct{ root *document.Value }

// Has reports whether the list names a resource, by a quantity or not.
func (r Resources) Has(name corev1.ResourceName) bool { return r.at(name).Exists() }

// Get is the quantity of a resource; false if it is missing or no quantity.
func (r Resources) Get(name corev1.ResourceName) (resource.Quantity, bool) {
	v := r.at(name)
	if !v.Exists() {
		return resource.Quantity{}, false
	}
	// A string, or a bare number as hand-written samples and patches have it.
	text := string(v.Bytes())
	if text[0] == '"' {
		text = v.Text()
	}
	q, err := quantity.ParseQuantity(text)
	return q, err == nil
}

// All are the names and quantities in order, without what is no quantity.
func (r Resources) All() iter.Seq2[corev1.ResourceName, resource.Quantity] {
	return func(yield func(corev1.ResourceName, resource.Quantity) bool) {
		for name := range r.root.Members() {
			q, ok := r.Get(corev1.ResourceName(name))
			if ok && !yield(corev1.ResourceName(name), q) {
				return
			}
		}
	}
}

// Exists reports whether the list is there, empty or not.
func (r Resources) Exists() bool { return r.root.Exists() }

// Set sets the quantity of a resource. The same amount, however it is written, is no edit.
func (r Resources) Set(name corev1.ResourceName, q resource.Quantity) {
	if now, ok := r.Get(name); !ok || now.Cmp(q) != 0 {
		r.at(name).Set(q.String())
	}
}

// Remove takes a resource out of the list.
func (r Resources) Remove(name corev1.ResourceName) { r.at(name).Remove() }

func (r Resources) at(name corev1.ResourceName) *document.Value { return r.root.Get(string(name)) }

// Requirements is the view of what a container, or a pod as a whole, asks for.
type Requirements struct{ root *document.Value }

// Requests is what is reserved.
func (r Requirements) Requests() Resources { return Resources{r.root.Get("requests")} }

// Limits is what may be used.
func (r Requirements) Limits() Resources { return Resources{r.root.Get("limits")} }
