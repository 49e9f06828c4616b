package views

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
)

// Reservation is the view of a Reservation, see api.Reservation.
type Reservation struct{ admit.Meta }

// AsReservation views a document as a Reservation.
func AsReservation(d *document.Document) *Reservation { return &Reservation{admit.MetaOf(d.Root())} }

// Template returns the pod that is reserved for, spec.template, with the metadata and spec of a Pod; false if there is
// none.
func (r *Reservation) Template() (*admit.Pod, bool) {
	template := r.Root().At("spec", "template")
	return &admit.Pod{Meta: admit.MetaOf(template)}, template.Exists()
}

// Owners returns the owners, which may use what is reserved.
func (r *Reservation) Owners() []api.ReservationOwner {
	return document.As[[]api.ReservationOwner](r.Root().At("spec", "owners"))
}

// DefaultTTL sets spec.ttl, such as "24h", if it is not set.
func (r *Reservation) DefaultTTL(ttl string) { r.defaultTo("ttl", ttl) }

// DefaultAllocateOnce sets spec.allocateOnce if it is not set.
func (r *Reservation) DefaultAllocateOnce(once bool) { r.defaultTo("allocateOnce", once) }

func (r *Reservation) defaultTo(name string, value any) {
	if v := r.Root().At("spec", name); !v.Exists() {
		v.Set(value)
	}
}
