package validators

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// Reservations returns all reservations, without their templates. The step only reads them.
type Reservations func() ([]*api.Reservation, error)

// NodeLabels returns the labels of a node; known is false if they are not available. A nil function knows no node.
type NodeLabels func(node string) (labels map[string]string, known bool)

// reservationFit refuses pods that require a reservation when none of the matching ones can ever hold them. This is
// only certain for reservations with the allocate policy Restricted: with the others, an owner also uses resources of
// the node. Everything that is unknown at admission is decided in favour of the pod: reservations that are not
// available yet, and labels that a reservation may inherit from a node that usher does not know.
func reservationFit(reservations Reservations, nodes NodeLabels) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:  "reservation-fit",
		Doc:   "refuses pods that no reservation they ask for can ever hold, and warns when none can hold them now",
		Gate:  api.GateReservationFit,
		Needs: []string{api.CollectionReservations, api.CollectionNodes},
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			text, asks := newReservationAffinity(req, pod)
			if !asks {
				return nil, nil
			}
			affinity, warnings, err := parseReservationAffinity(text)
			for _, w := range warnings {
				req.Warnf("%s", w)
			}
			if err != nil {
				return field.ErrorList{field.Invalid(reservationAffinityPath, admit.Shorten(text, 200), err.Error())}, nil
			}
			typed := pod.Object()
			if typed.Spec.NodeName != "" || pod.Label(labelReservationIgnored) == "true" {
				// the scheduler will not look for a reservation
				return pass(req, "no reservation limits the pod: spec.nodeName or the label %s is set", labelReservationIgnored)
			}
			all, err := reservations()
			if err != nil {
				return nil, fmt.Errorf("reading the reservations: %w", err)
			}
			typed.Namespace = req.Namespace
			found, err := findCapacity(ctx, all, affinity, nodes, &typed)
			if err != nil {
				return nil, err
			}
			return found.judge(req), nil
		},
	}
}

var reservationAffinityPath = admit.AnnotationPath(api.AnnotationReservationAffinity)

// labelReservationIgnored with the value "true" lets a pod use the resources of any reservation, so that none limits
// it.
const labelReservationIgnored = "scheduling.koordinator.sh/reservation-ignored"

// newReservationAffinity returns the annotation, and whether the request asks for a reservation by it.
func newReservationAffinity(req *admit.Request, pod *admit.Pod) (text string, asks bool) {
	text, has := pod.Annotation(api.AnnotationReservationAffinity)
	switch {
	case !has:
		req.Explain("the annotation %s is missing", api.AnnotationReservationAffinity)
	case pod.Deleting():
		req.Explain("the pod is being deleted")
	// A pending pod must not become unchangeable because a reservation has shrunk.
	case keepsAnnotation(storedPod(req), api.AnnotationReservationAffinity, text):
		req.Explain("the update keeps the annotation %s", api.AnnotationReservationAffinity)
	default:
		return text, true
	}
	return "", false
}
