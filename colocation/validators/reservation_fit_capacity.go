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

// capacity describes what the reservations that a pod may use can provide. Those that the scheduler would not consider count as absent.
type capacity struct {
	any  bool // there is a reservation that matches, or may match
	sure bool // there is one that certainly matches
	held bool // one can hold the pod, now or later
	free bool // one can hold it now
	// largest is the one with the largest allocatable of those that are too small, emptiest the available one with the
	// most free resources; nil if there is none.
	largest, emptiest *offer
}

// offer describes what a reservation has of the resources that a pod requests.
type offer struct {
	of    *api.Reservation
	lacks []string // insufficient resources, as "2 of 4 cpu"
	share float64  // the covered share of the request, for the scarcest resource; at least 1 if all is covered
}

// findCapacity checks all reservations. With selectors as large as an annotation allows, that may take longer than a
// review.
func findCapacity(ctx context.Context, all []*api.Reservation, a affinity, nodes NodeLabels, pod *corev1.Pod) (capacity, error) {
	var found capacity
	request := api.PodRequest(&pod.Spec)
	for _, r := range all {
		if err := ctx.Err(); err != nil {
			return found, fmt.Errorf("matching %d reservations: %w", len(all), err)
		}
		if r.Status.Phase == api.ReservationFailed || r.Status.Phase == api.ReservationSucceeded {
			continue
		}
		seen := labelledWith(r, nodes)
		if !a.allows(seen, true) || a.repels(r) || !offeredTo(r, pod) {
			continue
		}
		found.any, found.sure = true, found.sure || a.allows(seen, false)
		if r.Status.Phase != api.ReservationAvailable {
			found.held = true // its capacity is not known yet
			continue
		}
		found.add(r, request)
	}
	return found, nil
}

// add adds an available reservation.
func (c *capacity) add(r *api.Reservation, request corev1.ResourceList) {
	whole := offered(r, request, nil)
	if r.Spec.AllocatePolicy != api.AllocateRestricted || whole.lacks == nil {
		c.held = true
	} else {
		c.largest = larger(c.largest, whole)
	}
	now := offered(r, request, r.Status.Allocated)
	c.emptiest = larger(c.emptiest, now)
	c.free = c.free || now.lacks == nil
}

// lacking lists the insufficient resources.
func (o *offer) lacking() string { return strings.Join(o.lacks, ", ") }

func larger(a *offer, b offer) *offer {
	if a == nil || b.share > a.share {
		return &b
	}
	return a
}

// offered compares a request with a reservation's allocatable, less what is allocated, for the resources that limit its
// owners.
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

// annotationRestrictedOptions on a reservation selects the reserved resources that Restricted applies to:
// {"resources":["cpu"]}. It applies to all if the annotation is missing or selects none of them.
const annotationRestrictedOptions = "scheduling.koordinator.sh/reservation-restricted-options"

// restrictedTo returns the resources in the annotation of a reservation with the policy Restricted.
func restrictedTo(r *api.Reservation) ([]corev1.ResourceName, error) {
	type options struct {
		Resources []corev1.ResourceName `json:"resources"`
	}
	text := r.Annotations[annotationRestrictedOptions]
	if text == "" || r.Spec.AllocatePolicy != api.AllocateRestricted {
		return nil, nil
	}
	chosen, _, err := api.ParseFolded[options](nil, text)
	return chosen.Resources, err
}

// limited returns the resources of a reservation that limit its owners. All others come from the node.
func limited(r *api.Reservation) map[corev1.ResourceName]bool {
	limits := map[corev1.ResourceName]bool{}
	chosen, _ := restrictedTo(r) // a reservation that does not parse is not offered
	for _, name := range chosen {
		if _, reserved := r.Status.Allocatable[name]; reserved {
			limits[name] = true
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
func (c capacity) judge(req *admit.Request) field.ErrorList {
	switch {
	case !c.any:
		req.Explain("no reservation open to the pod matches the annotation %s", api.AnnotationReservationAffinity)
		req.Warnf("no reservation open to the pod matches annotation %s; it waits for one", api.AnnotationReservationAffinity)
	case !c.held && !c.sure:
		req.Explain("reservation %s may match, and is too small", c.largest.of.Name)
		req.Warnf("reservation %s has %s, and usher does not know the labels of its node, %s; the pod waits until a reservation fits",
			c.largest.of.Name, c.largest.lacking(), c.largest.of.Status.NodeName)
	case !c.held:
		return field.ErrorList{field.Invalid(reservationAffinityPath, field.OmitValueType{}, fmt.Sprintf(
			"no reservation that it allows can ever hold the pod: the largest, %s, has %s, and its allocatePolicy Restricted takes "+
				"nothing from the node; ask for less, or allow a larger reservation", c.largest.of.Name, c.largest.lacking()))}
	case c.free:
		req.Explain("a matching reservation can hold the pod now")
	case c.emptiest == nil:
		req.Explain("a matching reservation may hold the pod, but none is available yet")
		req.Warnf("no reservation that the pod may use is available yet; the pod waits until one is")
	default:
		req.Explain("a matching reservation may hold the pod, but %s has too little free now", c.emptiest.of.Name)
		then := "its node must give the rest"
		if c.emptiest.of.Spec.AllocatePolicy == api.AllocateRestricted {
			then = "the pod waits for more"
		}
		req.Warnf("reservation %s has %s free now; %s", c.emptiest.of.Name, c.emptiest.lacking(), then)
	}
	return nil
}
