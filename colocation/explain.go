package colocation

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/mutators"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/suite"
)

// Explain returns the path through the quota tree that a pod is judged by, in its state before the pod. With why it
// adds, for each colocation profile, why it applies to the pod or reservation, or why not. An invalid review gets no
// notes and no error: its errors are in the report on the review.
func (Tools) Explain(e suite.Env, body []byte, why bool) (notes []suite.Note, err error) {
	_, req, err := handlers.ReadReview(body)
	if err != nil || req.Object == nil {
		return nil, nil
	}
	defer req.Release()
	if why {
		if notes, err = explainProfiles(e, req); err != nil {
			return nil, err
		}
	}
	q, _ := e.State.(*quotas)
	if req.Kind.Kind != "Pod" || q == nil || q.ledger == nil {
		return notes, nil
	}
	quota, err := q.explain(req)
	return append(notes, quota), err
}

// quotaPath is the elastic quota of a pod, the reason why the pod belongs to it, and the state of the quota and its
// ancestors.
type quotaPath struct {
	Name string       `json:"name"`
	Via  string       `json:"via"`
	Path []ledger.Row `json:"path,omitempty"`
}

func (q *quotas) explain(req *admit.Request) (suite.Note, error) {
	tree, err := q.stored()
	if err != nil {
		return suite.Note{}, err
	}
	binding := tree.Bind(quota.BindingKeyOf(req.Namespace, admit.AsPod(req.Object)), q.labelOnly)
	path, err := q.ledger.Path(binding.Name)
	note := suite.Note{Name: "quota", Value: quotaPath{binding.Name, binding.Via, path},
		Lines: []string{fmt.Sprintf("quota  %s (via %s)", binding.Name, binding.Via)}}
	for _, row := range path {
		name := row.Name
		for _, r := range row.Resources {
			note.Lines = append(note.Lines, fmt.Sprintf("  %-22s %s", name, r))
			name = ""
		}
	}
	return note, err
}

func explainProfiles(e suite.Env, req *admit.Request) ([]suite.Note, error) {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return nil, nil
	}
	var kept []string
	for _, collection := range e.Cluster.Status() {
		kept = append(kept, collection.Name)
	}
	ask := questionsOf(e, kept).profileQuestions()
	var subject profile.Subject
	switch req.Kind.Kind {
	case "Pod":
		subject = mutators.PodSubject(req.Namespace, admit.AsPod(req.Object), ask)
	case "Reservation":
		subject = mutators.ReservationSubject(views.AsReservation(req.Object), ask)
	default:
		return nil, nil
	}
	set, err := ask.Profiles()
	if err != nil || set == nil {
		return nil, err
	}
	explanations, err := set.Explain(subject)
	if err != nil || len(explanations) == 0 {
		return nil, err
	}
	note := suite.Note{Name: "profiles", Value: explanations, Lines: []string{"profiles"}}
	for _, e := range explanations {
		note.Lines = append(note.Lines, fmt.Sprintf("  %-20s %s: %s", e.Profile, e.Outcome, e.Detail))
	}
	return []suite.Note{note}, nil
}
