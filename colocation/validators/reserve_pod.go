package validators

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// reservePod refuses pods that pose as a reservation. The scheduler represents each Reservation by a pod of its own,
// marked by this annotation; a real pod with it would be mistaken for one. A pod that already has it may keep it.
func reservePod() admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "reserve-pod",
		Doc:  "refuses pods with the annotation by which the scheduler knows its own stand-ins for reservations",
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			value, has := pod.Annotation(api.AnnotationReservePod)
			switch {
			case !has:
				return pass(req, "the annotation %s is missing", api.AnnotationReservePod)
			case pod.Deleting():
				return pass(req, "the pod is being deleted")
			case keepsAnnotation(storedPod(req), api.AnnotationReservePod, value):
				return pass(req, "the stored pod has the annotation %s already", api.AnnotationReservePod)
			}
			return field.ErrorList{field.Forbidden(admit.AnnotationPath(api.AnnotationReservePod),
				"only the scheduler's own stand-ins for reservations carry it; remove it, and create a Reservation to hold resources")}, nil
		},
	}
}
