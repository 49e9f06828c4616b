package validators

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// room is what the reservations that a pod may use can do for it.
type room struct {
	any  bool // there is one
	held bool // one can hold the pod, now or later
	free bool // one has room for it now
	// largest is the one with the largest allocatable of those that are too small, emptiest the one with the most that is free
	// of those that are available; nil if there is none.
	largest, emptiest *offer
}

// offer is what a reservation has of the resources that a pod asks for.
type offer struct {
	of    *api.Reservation
	lacks []string // what there is too little of, as "2 of 4 cpu"
	share float64  // how much of the request it has, of what is scarcest; 1 and above: all of it
}

// findRoom looks at all reservations. Selectors as large as an annotation can be make that take longer than a review may.
func findRoom(ctx context.Context, all []*api.Reservation, a affinity, nodes NodeLabels, asks corev1.ResourceList) (room, error) {
	var found room
	for _, r := range all {
		if err := ctx.Err(); err != nil {
			return found, fmt.Errorf("matching %d reservations: %w", len(all), err)
		}
		if r.Status.Phase == api.ReservationFailed || r.Status.Phase == api.ReservationSucceeded || !a.allows(labelledWith(r, nodes)) {
			continue
		}
		found.any = true
		if r.Status.Phase != api.ReservationAvailable {
			found.held = true // nobody knows yet what it will have
			continue
		}
		found.take(r, asks)
	}
	return found, nil
}

// take counts in an available reservation.
func (found *room) take(r *api.Reservation, request corev1.ResourceList) {
	whole := offered(r, request, nil)
	if r.Spec.AllocatePolicy != api.AllocateRestricted || whole.lacks == nil {
		found.held = true
	} else {
		found.largest = larger(found.largest, whole)
	}
	if r.Spec.Unschedulable {
		return
	}
	now := offered(r, request, r.Status.Allocated)
	found.emptiest = larger(found.emptiest, now)
	found.free = found.free || now.lacks == nil
}

// lacking is in words what there is too little of.
func (o *offer) lacking() string { return strings.Join(o.lacks, ", ") }

func larger(a *offer, b offer) *offer {
	if a == nil || b.share > a.share {
		return &b
	}
	return a
}

// offered compares a request with a reservation's allocatable, less what is allocated, for resources that limit its owners.
func offered(r *api.Reservation, request corev1.ResourceList, allocated api.ResourceList) offer {
	o, limits := offer{of: r, share: math.Inf(1)}, limited(r)
	for _, name := range slices.Sorted(maps.Keys(request)) {
		want := request[name]
		if want.Sign() <= 0 || !limits[name] {
			continue
		}
		has := r.Status.Allocatable[name].DeepCopy()
		has.Sub(allocated[name])
		if has.Cmp(want) < 0 {
			o.lacks = append(o.lacks, fmt.Sprintf("%s of %s %s", &has, &want, name))
		}
		o.share = min(o.share, has.AsApproximateFloat64()/want.AsApproximateFloat64())
	}
	return o
}

// annotationRestrictedOptions on a reservation names the resources, of those it reserves, that Restricted restricts:
// {"resources":["cpu"]}. All, if it is not there, not readable, or names none of them.
const annotationRestrictedOptions = "scheduling.koordinator.sh/reservation-restricted-options"

// limited are the resources of a reservation that limit its owners. What it does not reserve comes from the node.
func limited(r *api.Reservation) map[corev1.ResourceName]bool {
	type options struct {
		Resources []corev1.ResourceName `json:"resources"`
	}
	limits := map[corev1.ResourceName]bool{}
	if text := r.Annotations[annotationRestrictedOptions]; text != "" && r.Spec.AllocatePolicy == api.AllocateRestricted {
		chosen, _ := api.ParseJSONText[options](text)
		for _, name := range chosen.Resources {
			if _, reserved := r.Status.Allocatable[name]; reserved {
				limits[name] = true
			}
		}
	}
	if len(limits) == 0 {
		for name := range r.Status.Allocatable {
			limits[name] = true
		}
	}
	return limits
}

// judge refuses what can never be held, and warns of what must wait.
func (found room) judge(req *admit.Request) field.ErrorList {
	switch {
	case !found.any:
		req.Warnf("no reservation matches annotation %s; the pod waits until one does", api.AnnotationReservationAffinity)
	case !found.held:
		return field.ErrorList{field.Invalid(reservationAffinityPath, field.OmitValueType{}, fmt.Sprintf(
			"no reservation that it allows can ever hold the pod: the largest, %s, has %s, and its allocatePolicy Restricted takes "+
				"nothing from the node; ask for less, or allow a larger reservation", found.largest.of.Name, found.largest.lacking()))}
	case found.free:
	case found.emptiest == nil:
		req.Warnf("no reservation that the pod may use is available yet; the pod waits until one is")
	default:
		then := "its node must give the rest"
		if found.emptiest.of.Spec.AllocatePolicy == api.AllocateRestricted {
			then = "the pod waits for more"
		}
		req.Warnf("reservation %s has %s free now; %s", found.emptiest.of.Name, found.emptiest.lacking(), then)
	}
	return nil
}
