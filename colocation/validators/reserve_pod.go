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
				req.Explain("the annotation %s is missing", api.AnnotationReservePod)
				return nil, nil
			case pod.Deleting():
				req.Explain("the pod is being deleted")
				return nil, nil
			}
			if old := storedPod(req); old != nil {
				if was, had := old.Annotation(api.AnnotationReservePod); had && was == value {
					req.Explain("the stored pod has the annotation %s already", api.AnnotationReservePod)
					return nil, nil
				}
			}
			return field.ErrorList{field.Forbidden(admit.AnnotationPath(api.AnnotationReservePod),
				"only the scheduler's own stand-ins for reservations carry it; remove it, and create a Reservation to hold resources")}, nil
		},
	}
}

// storedPod returns the pod that an update changes, as stored; nil on create.
func storedPod(req *admit.Request) *admit.Pod {
	if req.OldObject == nil {
		return nil
	}
	return admit.AsPod(req.OldObject)
}
