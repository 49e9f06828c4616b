package admit

import (
	"usher.dev/usher/api"
	"usher.dev/usher/document"
)

// Reservation is the view of a Reservation, see api.Reservation.
type Reservation struct{ Meta }

// AsReservation views a document as a Reservation.
func AsReservation(d *document.Document) *Reservation { return &Reservation{MetaOf(d.Root())} }

// Template is the pod that room is reserved for, spec.template, with the metadata and spec of a Pod; false if there is none.
func (r *Reservation) Template() (*Pod, bool) {
	template := r.Root().At("spec", "template")
	return &Pod{MetaOf(template)}, template.Exists()
}

// Owners are those who may use what is reserved.
func (r *Reservation) Owners() []api.ReservationOwner {
	return document.As[[]api.ReservationOwner](r.Root().At("spec", "owners"))
}

// DefaultTTL sets spec.ttl, such as 24h, unless it is there.
func (r *Reservation) DefaultTTL(ttl string) { r.defaultTo("ttl", ttl) }

// DefaultAllocateOnce sets spec.allocateOnce unless it is there.
func (r *Reservation) DefaultAllocateOnce(once bool) { r.defaultTo("allocateOnce", once) }

func (r *Reservation) defaultTo(name string, value any) {
	if v := r.Root().At("spec", name); !v.Exists() {
		v.Set(value)
	}
}
