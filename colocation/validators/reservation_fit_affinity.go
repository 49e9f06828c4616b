package validators

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/api"
)

// affinity is a ReservationAffinity, compiled.
type affinity struct {
	// name, if not empty, is decisive alone.
	name     string
	selector map[string]string
	required bool // one of the terms must match; without terms none does
	terms    []selectorTerm

	tolerations []corev1.Toleration
}

// selectorTerm matches if all its parts do.
type selectorTerm struct {
	labels []*labels.Requirement
	fields []corev1.NodeSelectorRequirement
}

// parseReservationAffinity parses the annotation as the scheduler does: empty text is an affinity to any reservation,
// and one invalid term makes the whole annotation invalid. The error and the warnings are worded for users.
func parseReservationAffinity(text string) (_ affinity, warnings []string, err error) {
	var parsed api.ReservationAffinity
	if text != "" {
		if parsed, warnings, err = api.ParseFolded[api.ReservationAffinity](reservationAffinityPath, text); err != nil {
			return affinity{}, nil, err
		}
	}
	a := affinity{name: parsed.Name, selector: parsed.ReservationSelector, tolerations: parsed.Tolerations}
	required := parsed.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return a, warnings, nil
	}
	a.required = true
	at := field.NewPath("requiredDuringSchedulingIgnoredDuringExecution", "reservationSelectorTerms")
	var problems []error
	for i, term := range required.ReservationSelectorTerms {
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // an empty term matches nothing
		}
		compiled, err := compileTerm(term, at.Index(i))
		a.terms, problems = append(a.terms, compiled), append(problems, err)
	}
	return a, warnings, utilerrors.NewAggregate(problems)
}

// compileTerm compiles a term of a node selector. Package nodeaffinity does the same, but cannot leave a key undecided
// that only the node may have.
func compileTerm(term corev1.NodeSelectorTerm, at *field.Path) (selectorTerm, error) {
	compiled := selectorTerm{fields: term.MatchFields}
	var problems []error
	for i, e := range term.MatchExpressions {
		requirement, err := compileExpression(e, at.Child("matchExpressions").Index(i))
		compiled.labels, problems = append(compiled.labels, requirement), append(problems, err)
	}
	for i, f := range term.MatchFields {
		at := at.Child("matchFields").Index(i)
		if f.Operator != corev1.NodeSelectorOpIn && f.Operator != corev1.NodeSelectorOpNotIn {
			problems = append(problems, field.NotSupported(at.Child("operator"), f.Operator,
				[]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}))
		} else if len(f.Values) != 1 {
			problems = append(problems, field.Invalid(at.Child("values"), f.Values, "must have one element"))
		}
	}
	return compiled, utilerrors.NewAggregate(problems)
}

// selectionOperators maps operators of node selectors to operators of label selectors.
var selectionOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func compileExpression(e corev1.NodeSelectorRequirement, at *field.Path) (*labels.Requirement, error) {
	operator, ok := selectionOperators[e.Operator]
	if !ok {
		return nil, field.NotSupported(at.Child("operator"), e.Operator, slices.Sorted(maps.Keys(selectionOperators)))
	}
	return labels.NewRequirement(e.Key, operator, e.Values, field.WithPath(at))
}

// labelled is a reservation as selectors see it: its own labels, which hide the labels of its node.
type labelled struct {
	*api.Reservation
	node  map[string]string
	known bool // whether the node's labels are known
}

func labelledWith(r *api.Reservation, nodes NodeLabels) *labelled {
	l := &labelled{Reservation: r}
	if nodes != nil && r.Status.NodeName != "" {
		l.node, l.known = nodes(r.Status.NodeName)
	}
	return l
}

// Lookup, Has and Get implement labels.Labels.
func (l *labelled) Lookup(key string) (string, bool) {
	if value, ok := l.Labels[key]; ok {
		return value, true
	}
	value, ok := l.node[key]
	return value, ok
}

func (l *labelled) Has(key string) bool { _, ok := l.Lookup(key); return ok }

func (l *labelled) Get(key string) string { value, _ := l.Lookup(key); return value }

// decide returns matches, or perhaps if the reservation may get the label from its node, with any value.
func (l *labelled) decide(key string, matches, perhaps bool) bool {
	if !l.known && !l.Has(key) {
		return perhaps
	}
	return matches
}

// allows reports whether the affinity matches a reservation. The answer for a label that the reservation may get from
// its node is perhaps: with true, the affinity matches or may match; with false, it certainly matches.
func (a affinity) allows(l *labelled, perhaps bool) bool {
	if a.name != "" {
		return l.Name == a.name
	}
	for key, want := range a.selector {
		value, has := l.Lookup(key)
		if matches := has && value == want; !l.decide(key, matches, perhaps) {
			return false
		}
	}
	return !a.required || slices.ContainsFunc(a.terms, func(t selectorTerm) bool { return t.allows(l, perhaps) })
}

func (t selectorTerm) allows(l *labelled, perhaps bool) bool {
	for _, r := range t.labels {
		if !l.decide(r.Key(), r.Matches(l), perhaps) {
			return false
		}
	}
	for _, f := range t.fields {
		value := "" // the value of every field but the name
		if f.Key == "metadata.name" {
			value = l.Name
		}
		if (value == f.Values[0]) != (f.Operator == corev1.NodeSelectorOpIn) {
			return false
		}
	}
	return true
}
