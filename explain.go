package main

import (
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/profile"
)

// explain says for each colocation profile why a pod or reservation that is created gets it, or not; nothing for other requests.
func explain(body []byte, s state) ([]profile.Explanation, error) {
	_, req, err := handlers.ReadReview(body)
	if err != nil || req.Operation != admissionv1.Create || req.Object == nil || req.SubResource != "" {
		return nil, nil // what is wrong with the review is in its report
	}
	defer req.Release()
	ask := s.profileQuestions()
	var subject profile.Subject
	switch req.Kind.Kind {
	case "Pod":
		subject = mutators.PodSubject(req.Namespace, admit.AsPod(req.Object), ask)
	case "Reservation":
		subject = mutators.ReservationSubject(admit.AsReservation(req.Object), ask)
	default:
		return nil, nil
	}
	set, err := s.profiles()
	if err != nil || set == nil {
		return nil, err
	}
	return set.Explain(subject)
}
