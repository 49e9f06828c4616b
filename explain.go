package main

import (
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/mutators"
	"usher.dev/usher/profile"
	"usher.dev/usher/quota"
	"usher.dev/usher/review"
)

// quotaOf is the way through the quota tree that a pod is judged by, as it is before that; nil if pods are not held to quotas, or this is
// none.
func quotaOf(body []byte, s state) (*review.Quota, error) {
	_, req, err := handlers.ReadReview(body)
	if err != nil || req.Object == nil || req.Kind.Kind != "Pod" || s.quotas.ledger == nil {
		return nil, nil // what is wrong with the review is in its report
	}
	defer req.Release()
	tree, err := s.quotas.stored()
	if err != nil {
		return nil, err
	}
	binding := tree.Bind(quota.HolderOf(req.Namespace, admit.AsPod(req.Object)), s.quotas.labelOnly)
	path, err := s.quotas.ledger.Path(binding.Name)
	return &review.Quota{Name: binding.Name, Via: binding.Via, Path: path}, err
}

// explain says for each colocation profile why a pod or reservation that is created gets it, or not; nothing for other requests.
func explain(body []byte, s state) ([]profile.Explanation, error) {
	_, req, err := handlers.ReadReview(body)
	if err != nil || req.Operation != admissionv1.Create || req.Object == nil || req.SubResource != "" {
		return nil, nil // what is wrong with the review is in its report
	}
	defer req.Release()
	ask := s.questions(s.needs).profileQuestions()
	var subject profile.Subject
	switch req.Kind.Kind {
	case "Pod":
		subject = mutators.PodSubject(req.Namespace, admit.AsPod(req.Object), ask)
	case "Reservation":
		subject = mutators.ReservationSubject(admit.AsReservation(req.Object), ask)
	default:
		return nil, nil
	}
	set, err := ask.Profiles()
	if err != nil || set == nil {
		return nil, err
	}
	return set.Explain(subject)
}
