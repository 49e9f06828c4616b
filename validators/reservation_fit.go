package validators

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
)

// Reservations gives all reservations, without their templates. The step only reads them.
type Reservations func() ([]*api.Reservation, error)

// NodeLabels gives the labels of a node; known is false if they cannot be told. Nil: of no node.
type NodeLabels func(node string) (labels map[string]string, known bool)

// reservationFit refuses pods that may only use reservations which can never hold them. That can be said only of reservations
// with the allocate policy Restricted: beside the others an owner takes what is missing from their node. Everything that cannot
// be told at admission speaks for the pod: reservations that are not available yet, labels that a reservation may have from its
// node, owners and taints.
func reservationFit(reservations Reservations, nodes NodeLabels) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "reservation-fit",
		Doc:  "refuses pods that no reservation they ask for can ever hold, and warns when none can hold them now",
		Gate: "ReservationFit",
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			text, asks := pod.Annotation(api.AnnotationReservationAffinity)
			if !asks || pod.Deleting() || keepsReservationAffinity(req, text) {
				return nil, nil
			}
			affinity, err := parseReservationAffinity(text)
			if err != nil {
				return field.ErrorList{field.Invalid(reservationAffinityPath, admit.Shorten(text, 200), err.Error())}, nil
			}
			spec := pod.Object().Spec
			if spec.NodeName != "" || pod.Label(labelReservationIgnored) == "true" {
				return nil, nil // the scheduler will not look for a reservation
			}
			all, err := reservations()
			if err != nil {
				return nil, fmt.Errorf("reading the reservations: %w", err)
			}
			found, err := findRoom(ctx, all, affinity, nodes, api.PodRequest(&spec))
			if err != nil {
				return nil, err
			}
			return found.judge(req), nil
		},
	}
}

var reservationAffinityPath = admit.AnnotationPath(api.AnnotationReservationAffinity)

// labelReservationIgnored with the value "true" lets a pod use what any reservation holds, so that none limits it.
const labelReservationIgnored = "scheduling.koordinator.sh/reservation-ignored"

// keepsReservationAffinity tells whether an update leaves the annotation as it was. A pod that waits must not become impossible
// to change because a reservation has shrunk.
func keepsReservationAffinity(req *admit.Request, text string) bool {
	old := storedPod(req)
	if old == nil {
		return false
	}
	was, had := old.Annotation(api.AnnotationReservationAffinity)
	return had && was == text
}

// affinity is a ReservationAffinity, compiled.
type affinity struct {
	// name alone decides if it is not empty.
	name     string
	selector map[string]string
	required bool // one of the terms must match; no terms: none does
	terms    []selectorTerm
}

// selectorTerm matches if everything in it does.
type selectorTerm struct {
	labels []*labels.Requirement
	fields []corev1.NodeSelectorRequirement
}

// parseReservationAffinity reads the annotation as the scheduler does: empty text is an affinity to any reservation, and one term
// that is wrong makes all of it wrong. The error is worded for the user.
func parseReservationAffinity(text string) (affinity, error) {
	var parsed api.ReservationAffinity
	if text != "" {
		var err error
		if parsed, err = api.ParseJSONText[api.ReservationAffinity](text); err != nil {
			return affinity{}, err
		}
	}
	a := affinity{name: parsed.Name, selector: parsed.ReservationSelector}
	required := parsed.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return a, nil
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
	return a, utilerrors.NewAggregate(problems)
}

// compileTerm compiles a term of a node selector. package nodeaffinity does the same, but cannot leave a key open that only the
// node may have.
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

// selectionOperators are the operators of a node selector by their name in selectors of labels.
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

// labelled is a reservation as selectors see it: under its own labels lie those of its node.
type labelled struct {
	*api.Reservation
	node  map[string]string
	known bool // the node's labels are
}

func labelledWith(r *api.Reservation, nodes NodeLabels) *labelled {
	l := &labelled{Reservation: r}
	if nodes != nil && r.Status.NodeName != "" {
		l.node, l.known = nodes(r.Status.NodeName)
	}
	return l
}

// Lookup, Has and Get make it labels.Labels.
func (l *labelled) Lookup(key string) (string, bool) {
	if value, ok := l.Labels[key]; ok {
		return value, true
	}
	value, ok := l.node[key]
	return value, ok
}

func (l *labelled) Has(key string) bool { _, ok := l.Lookup(key); return ok }

func (l *labelled) Get(key string) string { value, _ := l.Lookup(key); return value }

// open tells whether the reservation may have the label from its node, with any value.
func (l *labelled) open(key string) bool { return !l.known && !l.Has(key) }

// allows tells whether the affinity allows a reservation, or may allow it.
func (a affinity) allows(l *labelled) bool {
	if a.name != "" {
		return l.Name == a.name
	}
	for key, want := range a.selector {
		if value, has := l.Lookup(key); !l.open(key) && (!has || value != want) {
			return false
		}
	}
	return !a.required || slices.ContainsFunc(a.terms, func(t selectorTerm) bool { return t.allows(l) })
}

func (t selectorTerm) allows(l *labelled) bool {
	for _, r := range t.labels {
		if !l.open(r.Key()) && !r.Matches(l) {
			return false
		}
	}
	for _, f := range t.fields {
		value := "" // as any field but the name reads
		if f.Key == "metadata.name" {
			value = l.Name
		}
		if (value == f.Values[0]) != (f.Operator == corev1.NodeSelectorOpIn) {
			return false
		}
	}
	return true
}

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
