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
}

// ForPods returns the chain with routes that its steps can ask about pods, see Request.JudgePod. Routes that commit are
// left out: what they decide depends on the moment.
func (c Chain) ForPods(routes []Route) Chain {
	c.pods = slices.DeleteFunc(slices.Clone(routes), func(r Route) bool { return r.Chain.Commits() })
	return c
}

// JudgePod returns what the routes for pods of the running chain would say if a user created the pod of the workload under
// review. fill sets in a new pod what the API server sets: before mutating routes, and again after them. They run first, each on
// what those before it made of the pod; the first that refuses ends it. An error is our own failure.
func (r *Request) JudgePod(ctx context.Context, kind WorkloadKind, by authenticationv1.UserInfo, fill func(*Pod)) (verdict PodVerdict, err error) {
	sent := len(r.Object.Sent())
	created := r.creating(by)
	body := created.appendReview(make([]byte, 0, sent+1024), func(b []byte) []byte { return kind.appendPod(b, r.Object) })
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
		fill(AsPod(created.Object))
		if !mutates {
			AsPod(created.Object).FillName()
			created.Name = AsPod(created.Object).Name()
		}
		if wrong, ok := errors.AsType[*field.Error](created.Object.Err()); ok {
			verdict.Problems = append(verdict.Problems, Problem{"the template", wrong})
			return verdict, nil
		}
		if !mutates && r.readsJSON(created) {
			body := created.appendReview(make([]byte, 0, sent+sent/4+2048), created.Object.Root().AppendTo)
			if err := created.read(body); err != nil {
				return verdict, fmt.Errorf("the pod: %w", err)
			}
		}
		for _, route := range r.podRoutes(created, mutates) {
			result, err := route.Chain.Run(ctx, created, nil)
			if err != nil {
				return verdict, fmt.Errorf("the pod, by %s: %w", route.Path, err)
			}
			verdict.Problems = append(verdict.Problems, result.Problems...)
			if verdict.Warnings = created.Warnings(); mutates && len(result.Problems) > 0 {
				return verdict, nil
			}
		}
	}
	return verdict, nil
}

// podRoutes returns the mutating routes, or the others, that a request would be sent to.
func (r *Request) podRoutes(created *Request, mutates bool) (all []Route) {
	for _, route := range r.pods {
		if route.Chain.Mutates() == mutates && route.Covers(created) && route.Untouched(created) == "" {
			all = append(all, route)
		}
	}
	return all
}

// readsJSON reports whether a validating route for a request reads objects as they were sent, without edits: rules do, whose
// matches name no kind.
func (r *Request) readsJSON(created *Request) bool {
	return slices.ContainsFunc(r.podRoutes(created, false), func(route Route) bool {
		return slices.ContainsFunc(route.For, func(m Match) bool { return m.Kind.Kind == "" })
	})
}

// creating returns a request of a user who creates a pod in the namespace of the request, as a dry run.
func (r *Request) creating(by authenticationv1.UserInfo) *Request {
	return &Request{
		UID: r.UID, Kind: metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")),
		Resource:  metav1.GroupVersionResource(corev1.SchemeGroupVersion.WithResource("pods")),
		Operation: admissionv1.Create, Namespace: r.Namespace, UserInfo: by, DryRun: true,
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
