package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// Verdict is the verdict of the routes for pods on a pod that does not exist yet.
type Verdict struct {
	Problems []admit.Problem // for which they would refuse it, with paths in the pod
	Warnings []string
	// NoResults are rules without a result: the routes would fail because of them, and say neither yes nor no.
	NoResults []*admit.NoResultError
}

// Judge returns what the routes for pods of the running chain would say if a user created the pod of the workload under
// review. fill sets in a new pod what the API server sets: before mutating routes, and again after them. They run first, each on
// what those before it made of the pod; the first that refuses ends it. An error is our own failure.
func Judge(
	ctx context.Context, req *admit.Request, kind admit.WorkloadKind, by authenticationv1.UserInfo, fill func(*admit.Pod) error,
) (verdict Verdict, err error) {
	created := creating(req, by)
	body := appendReview(make([]byte, 0, len(req.Object.Sent())+1024), created, func(b []byte) []byte { return appendPod(b, kind, req.Object) })
	if body == nil {
		return verdict, nil // the API server refuses a workload without a template
	}
	if err := read(created, body); err != nil {
		return verdict, fmt.Errorf("the pod: %w", err)
	}
	defer created.Release()
	routes := req.PodRoutes()
	finish(kind, req.Object, created.Object)
	created.Name = admit.MetaOf(created.Object.Root()).Name()
	for _, mutates := range []bool{true, false} {
		if err := fillNew(routes, created, mutates, fill); err != nil {
			return verdict, fmt.Errorf("the pod: %w", err)
		}
		if wrong, ok := errors.AsType[*field.Error](created.Object.Err()); ok {
			verdict.Problems = append(verdict.Problems, admit.Problem{Step: "the template", Error: wrong})
			return verdict, nil
		}
		if ended, err := verdict.judgedBy(ctx, req, created, mutates); ended || err != nil {
			return verdict, err
		}
	}
	return verdict, nil
}

// fillNew sets in a pod what the API server does before mutating routes, or between them and the others.
func fillNew(routes admit.PodRoutes, created *admit.Request, mutates bool, fill func(*admit.Pod) error) error {
	pod := admit.AsPod(created.Object)
	if err := fill(pod); err != nil || mutates {
		return err
	}
	FillName(pod.Meta)
	created.Name = pod.Name()
	if !readsJSON(routes, created) {
		return nil
	}
	sent := len(created.Object.Sent())
	return read(created, appendReview(make([]byte, 0, sent+sent/4+2048), created, created.Object.Root().AppendTo))
}

// judgedBy adds what the mutating routes, or the others, say of a pod. ended reports that they refuse it before others are asked.
func (v *Verdict) judgedBy(ctx context.Context, req, created *admit.Request, mutates bool) (ended bool, err error) {
	if mutates {
		if ended, err := changedBefore(ctx, req, created); ended || err != nil {
			return ended, err
		}
	}
	for _, route := range routesFor(req.PodRoutes().Own, created, mutates) {
		result, err := route.Chain.Run(ctx, created, nil)
		if err = v.takeNoResults(err); err != nil {
			return false, fmt.Errorf("the pod, by %s: %w", route.Path, err)
		}
		v.Problems = append(v.Problems, result.Problems...)
		if v.Warnings = created.Warnings(); mutates && len(result.Problems) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// changedBefore lets the routes of the suites before change a pod. ended reports that one refuses it.
func changedBefore(ctx context.Context, req, created *admit.Request) (ended bool, err error) {
	for _, route := range routesFor(req.PodRoutes().Before, created, true) {
		if called, err := req.PodRoutes().Called(route, created); err != nil {
			return false, fmt.Errorf("whether %s is called for the pod: %w", route.Path, err)
		} else if !called {
			continue
		}
		result, err := route.Chain.Run(ctx, created, nil)
		if err != nil {
			return false, fmt.Errorf("the pod, by %s: %w", route.Path, err)
		}
		if len(result.Problems) > 0 {
			req.Explain("%s refuses its pods: the suite %s says why", route.Path, route.Suite)
			return true, nil
		}
	}
	created.DropNotes() // their own suite says that, too
	return false, nil
}

// routesFor returns those of the mutating routes, or of the others, that a request would be sent to.
func routesFor(routes []admit.Route, created *admit.Request, mutates bool) (all []admit.Route) {
	for _, route := range routes {
		if route.Chain.Mutates() == mutates && route.Covers(created) && route.Untouched(created) == "" {
			all = append(all, route)
		}
	}
	return all
}

// readsJSON reports whether a validating route for a request reads objects as they were sent, without edits: rules do, whose
// matches name no kind.
func readsJSON(routes admit.PodRoutes, created *admit.Request) bool {
	return slices.ContainsFunc(routesFor(routes.Own, created, false), func(route admit.Route) bool {
		return slices.ContainsFunc(route.For, func(m admit.Match) bool { return m.Kind.Kind == "" })
	})
}

// creating returns a request of a user who creates a pod in the namespace of the request, as a dry run.
func creating(req *admit.Request, by authenticationv1.UserInfo) *admit.Request {
	return &admit.Request{
		UID: req.UID, Kind: metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")),
		Resource:  metav1.GroupVersionResource(corev1.SchemeGroupVersion.WithResource("pods")),
		Operation: admissionv1.Create, Namespace: req.Namespace, UserInfo: by, DryRun: true, Expected: true,
	}
}

// read sets the object to that of a review.
func read(r *admit.Request, body []byte) error {
	review, err := document.Parse(body)
	if err == nil {
		r.Release()
		r.Review, r.Object = review, review.Root().At("request", "object").Sub()
	}
	return err
}

// appendReview appends the part of an AdmissionReview that steps read; nil if there is no object.
func appendReview(b []byte, r *admit.Request, object func([]byte) []byte) []byte {
	b = document.AppendText(append(b, `{"request":{"uid":`...), string(r.UID))
	for _, key := range [...]string{"kind", "requestKind"} {
		b = append(b, `,"`+key+`":{"group":"","version":"v1","kind":"Pod"}`...)
	}
	for _, key := range [...]string{"resource", "requestResource"} {
		b = append(b, `,"`+key+`":{"group":"","version":"v1","resource":"pods"}`...)
	}
	b = document.AppendText(append(b, `,"operation":"CREATE","dryRun":true,"namespace":`...), r.Namespace)
	if r.Name != "" {
		b = document.AppendText(append(b, `,"name":`...), r.Name)
	}
	b = document.AppendText(append(b, `,"userInfo":{"username":`...), r.UserInfo.Username)
	b = append(b, `,"groups":[`...)
	for i, group := range r.UserInfo.Groups {
		if i > 0 {
			b = append(b, ',')
		}
		b = document.AppendText(b, group)
	}
	if b = object(append(b, `]},"object":`...)); b == nil {
		return nil
	}
	return append(b, `}}`...)
}

// takeNoResults adds the failures of a chain if all of them are rules without a result. Any other failure is returned.
func (v *Verdict) takeNoResults(err error) error {
	failures, all := noResults(err)
	if !all {
		return err
	}
	v.NoResults = append(v.NoResults, failures...)
	return nil
}

// noResults returns the rules without a result that an error consists of; all is false if it has other causes, too.
func noResults(err error) (failures []*admit.NoResultError, all bool) {
	if err == nil {
		return nil, true
	}
	if one, ok := err.(*admit.NoResultError); ok { //nolint:errorlint // all of a joined error are asked for
		return []*admit.NoResultError{one}, true
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			more, only := noResults(e)
			if !only {
				return nil, false
			}
			failures = append(failures, more...)
		}
		return failures, len(failures) > 0
	}
	if inner := errors.Unwrap(err); inner != nil {
		return noResults(inner)
	}
	return nil, false
}
