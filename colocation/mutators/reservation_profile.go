package mutators

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/colocation/views"
)

// reservationProfile applies matching ClusterColocationProfiles to reservations, like colocationProfile to pods. Labels
// and annotations are set on the reservation; scheduler, priority, patch and resources on the pod in its template. It
// then sets the defaults of the CRD, for API servers whose CRD lacks them.
func reservationProfile(ask ProfileQuestions, skipResources bool) admit.Mutator[views.Reservation] {
	return admit.Mutator[views.Reservation]{
		Name:  "reservation-profile",
		Doc:   "applies the colocation profiles that match a reservation, by name, the last wins; sets ttl and allocateOnce if absent",
		Needs: []string{api.CollectionColocationProfiles, admit.CollectionNamespaces, api.CollectionPriorityClasses},
		Run: func(_ context.Context, req *admit.Request, reservation *views.Reservation) error {
			reservation.DefaultTTL("24h")
			reservation.DefaultAllocateOnce(true)
			to := colocated{Meta: reservation.Meta}
			if template, ok := reservation.Template(); ok {
				to.pod = template
			}
			return ask.colocate(req, to, skipResources, ReservationSubject(reservation, ask))
		},
	}
}

// ReservationSubject returns what profiles match of a reservation.
func ReservationSubject(reservation *views.Reservation, ask ProfileQuestions) profile.Subject {
	return profile.Subject{
		Labels:   reservation.Labels(),
		Workload: func() admit.Origin { return admit.OriginOf("Reservation", "", reservation.Meta) },
		Namespaces: func() ([]labels.Set, error) {
			return ask.labelsOf(ask.OwnersNamespace, ownersNamespaces(reservation.Owners())...)
		},
	}
}

// ownersNamespaces returns the namespaces whose pods may use a reservation: none if one owner may be in any namespace,
// so that a profile for some namespaces does not apply to a reservation for others.
func ownersNamespaces(owners []api.ReservationOwner) (namespaces []string) {
	for _, owner := range owners {
		switch {
		case owner.Controller != nil && owner.Controller.Namespace != "":
			namespaces = append(namespaces, owner.Controller.Namespace)
		case owner.Object != nil && owner.Object.Namespace != "":
			namespaces = append(namespaces, owner.Object.Namespace)
		default:
			return nil
		}
	}
	return namespaces
}
