package collections

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// Reservations holds all reservations, without their pod templates.
var Reservations = &cluster.Collection[*api.Reservation]{
	Name: api.CollectionReservations, Kind: api.ReservationKind, Resource: api.ReservationResource.Resource, CRD: true,
	Keep: cluster.Keep(func(o *reservation) *api.Reservation {
		kept := &api.Reservation{ObjectMeta: nameAndKeys(o), Spec: o.Spec.ReservationSpec, Status: o.Status}
		kept.DeletionTimestamp = o.DeletionTimestamp
		return kept
	}),
}

// reservation is an api.Reservation that does not decode its template, which is large and not validated by the API
// server.
type reservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		api.ReservationSpec `json:",inline"`
		Template            cluster.Unread `json:"template"`
	} `json:"spec"`
	Status api.ReservationStatus `json:"status"`
}

// Reservations returns all reservations, without their pod templates, sorted by name, in a new list.
func (q Questions) Reservations() ([]*api.Reservation, error) {
	all, err := Reservations.All(q.Now())
	if err != nil {
		return nil, err
	}
	return all.Sorted(), nil
}
