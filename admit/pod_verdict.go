package admit

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

	"usher.dev/usher/admit/document"
)

// PodVerdict is the verdict of the routes for pods on a pod that does not exist yet.
type PodVerdict struct {
	Problems []Problem // for which they would refuse it, with paths in the pod
	Warnings []string
	// NoResults are rules without a result: the routes would fail because of them, and say neither yes nor no.
	NoResults []*NoResultError
}

// PodRoutes are the routes that the steps of a suite may ask about pods.
type PodRoutes struct {
	// Own are those of the suite itself. Steps that commit do not judge: what they decide depends on the moment.
	Own []Route
	// Before are mutating routes of suites that the API server calls before it. What one of them refuses is for the steps of
	// its own suite to say.
	Before []Route
	// Called reports whether the API server would call one of Before for a request.
	Called func(Route, *Request) (bool, error)
}

// ForPods returns the chain with routes that its steps can ask about pods, see Request.JudgePod.
func (c Chain) ForPods(routes PodRoutes) Chain {
	routes.Own = slices.Clone(routes.Own)
	for i := range routes.Own {
		routes.Own[i].Chain = routes.Own[i].Chain.withoutCommits()
	}
	c.pods = routes
	return c
}

// withoutCommits returns the chain with the steps that commit idle.
func (c Chain) withoutCommits() Chain {
	return c.with(func(s *step) { s.Idle = s.Idle || s.commit != nil })
}

// JudgePod returns what the routes for pods of the running chain would say if a user created the pod of the workload under
// review. fill sets in a new pod what the API server sets: before mutating routes, and again after them. They run first, each on
// what those before it made of the pod; the first that refuses ends it. An error is our own failure.
func (r *Request) JudgePod(ctx context.Context, kind WorkloadKind, by authenticationv1.UserInfo, fill func(*Pod) error) (verdict PodVerdict, err error) {
	created := r.creating(by)
	body := created.appendReview(make([]byte, 0, len(r.Object.Sent())+1024), func(b []byte) []byte { return kind.appendPod(b, r.Object) })
	if body == nil {
		return verdict, nil // the API server refuses a workload without a template
	}
	if err := created.read(body); err != nil {
		return verdict, fmt.Errorf("the pod: %w", err)
	}
	defer created.Release()
	kind.finish(r.Object, created.Object)
	created.Name = Meta{created.Object.Root()}.Name()
	for _, mutates := range []bool{true, false} {
		if err := r.fillNew(created, mutates, fill); err != nil {
			return verdict, fmt.Errorf("the pod: %w", err)
		}
		if wrong, ok := errors.AsType[*field.Error](created.Object.Err()); ok {
			verdict.Problems = append(verdict.Problems, Problem{"the template", wrong})
			return verdict, nil
		}
		if ended, err := r.judgedBy(ctx, created, mutates, &verdict); ended || err != nil {
			return verdict, err
		}
	}
	return verdict, nil
}

// fillNew sets in a pod what the API server does before mutating routes, or between them and the others.
func (r *Request) fillNew(created *Request, mutates bool, fill func(*Pod) error) error {
	if err := fill(AsPod(created.Object)); err != nil || mutates {
		return err
	}
	AsPod(created.Object).FillName()
	created.Name = AsPod(created.Object).Name()
	if !r.readsJSON(created) {
		return nil
	}
	sent := len(created.Object.Sent())
	return created.read(created.appendReview(make([]byte, 0, sent+sent/4+2048), created.Object.Root().AppendTo))
}

// judgedBy adds what the mutating routes, or the others, say of a pod. ended reports that they refuse it before others are asked.
func (r *Request) judgedBy(ctx context.Context, created *Request, mutates bool, verdict *PodVerdict) (ended bool, err error) {
	if mutates {
		if ended, err := r.changedBefore(ctx, created); ended || err != nil {
			return ended, err
		}
	}
	for _, route := range podRoutes(r.pods.Own, created, mutates) {
		result, err := route.Chain.Run(ctx, created, nil)
		if err = verdict.takeNoResults(err); err != nil {
			return false, fmt.Errorf("the pod, by %s: %w", route.Path, err)
		}
		verdict.Problems = append(verdict.Problems, result.Problems...)
		if verdict.Warnings = created.Warnings(); mutates && len(result.Problems) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// changedBefore lets the routes of the suites before change a pod. ended reports that one refuses it.
func (r *Request) changedBefore(ctx context.Context, created *Request) (ended bool, err error) {
	for _, route := range podRoutes(r.pods.Before, created, true) {
		if called, err := r.pods.Called(route, created); err != nil {
			return false, fmt.Errorf("whether %s is called for the pod: %w", route.Path, err)
		} else if !called {
			continue
		}
		result, err := route.Chain.Run(ctx, created, nil)
		if err != nil {
			return false, fmt.Errorf("the pod, by %s: %w", route.Path, err)
		}
		if len(result.Problems) > 0 {
			r.Explain("%s refuses its pods: the suite %s says why", route.Path, route.Suite)
			return true, nil
		}
	}
	created.notes = notes{} // their own suite says that, too
	return false, nil
}

// podRoutes returns those of the mutating routes, or of the others, that a request would be sent to.
func podRoutes(routes []Route, created *Request, mutates bool) (all []Route) {
	for _, route := range routes {
		if route.Chain.Mutates() == mutates && route.Covers(created) && route.Untouched(created) == "" {
			all = append(all, route)
		}
	}
	return all
}

// readsJSON reports whether a validating route for a request reads objects as they were sent, without edits: rules do, whose
// matches name no kind.
func (r *Request) readsJSON(created *Request) bool {
	return slices.ContainsFunc(podRoutes(r.pods.Own, created, false), func(route Route) bool {
		return slices.ContainsFunc(route.For, func(m Match) bool { return m.Kind.Kind == "" })
	})
}

// creating returns a request of a user who creates a pod in the namespace of the request, as a dry run.
func (r *Request) creating(by authenticationv1.UserInfo) *Request {
	return &Request{
		UID: r.UID, Kind: metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")),
		Resource:  metav1.GroupVersionResource(corev1.SchemeGroupVersion.WithResource("pods")),
		Operation: admissionv1.Create, Namespace: r.Namespace, UserInfo: by, DryRun: true, expected: true,
	}
}

// read sets the object to that of a review.
func (r *Request) read(body []byte) error {
	review, err := document.Parse(body)
	if err == nil {
		r.Release()
		r.Review, r.Object = review, review.Root().At("request", "object").Sub()
	}
	return err
}

// appendReview appends the part of an AdmissionReview that steps read; nil if there is no object.
func (r *Request) appendReview(b []byte, object func([]byte) []byte) []byte {
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
