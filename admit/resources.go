package admit

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
)

// Resources is the view of a resource list: requests, limits, overhead, allocatable or capacity.
type Resources struct{ root *document.Value }

// Has reports whether the list has an entry for a resource, valid or not.
func (r Resources) Has(name corev1.ResourceName) bool { return r.at(name).Exists() }

// Get returns the quantity of a resource; false if it is missing or not a quantity.
func (r Resources) Get(name corev1.ResourceName) (resource.Quantity, bool) {
	v := r.at(name)
	if !v.Exists() {
		return resource.Quantity{}, false
	}
	q, err := quantity.ParseQuantity(quantityText(v))
	return q, err == nil
}

// quantityText returns the text of a quantity: a string, or a bare number, as in hand-written samples and patches.
func quantityText(v *document.Value) string {
	if v.Kind() == document.Text {
		return v.Text()
	}
	return string(v.Bytes())
}

// All returns the names and quantities in order. Values that are not quantities are skipped.
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

// Exists reports whether the list is present, empty or not.
func (r Resources) Exists() bool { return r.root.Exists() }

// Set sets the quantity of a resource. Setting an equal amount is no edit, however it is written.
func (r Resources) Set(name corev1.ResourceName, q resource.Quantity) {
	if now, ok := r.Get(name); !ok || now.Cmp(q) != 0 {
		r.at(name).SetText(q.String())
	}
}

// Remove removes a resource from the list.
func (r Resources) Remove(name corev1.ResourceName) { r.at(name).Remove() }

func (r Resources) at(name corev1.ResourceName) *document.Value { return r.root.Get(string(name)) }

// Path returns the field path of a resource in the list.
func (r Resources) Path(name corev1.ResourceName) *field.Path { return r.at(name).Path() }

// Requirements is the view of the resource requirements of a container, or of a pod as a whole.
type Requirements struct{ root *document.Value }

// Requests returns the requests: what is reserved.
func (r Requirements) Requests() Resources { return Resources{r.root.Get("requests")} }

// Limits returns the limits: what may be used.
func (r Requirements) Limits() Resources { return Resources{r.root.Get("limits")} }
