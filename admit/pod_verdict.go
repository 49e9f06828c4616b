package admit

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/document"
)

// PodVerdict is what the routes for pods say of a pod that is yet to be created.
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

// JudgePod returns what the routes for pods of the running chain would say if a user created a pod in the namespace of the
// request. Mutating routes run first, each on what those before it made of the pod; the first that refuses ends it. An error
// is our own failure.
func (r *Request) JudgePod(ctx context.Context, pod []byte, by authenticationv1.UserInfo) (verdict PodVerdict, err error) {
	created, err := r.creating(pod, by)
	if err != nil {
		return verdict, err
	}
	for _, mutates := range []bool{true, false} {
		if edits(created) > 0 { // steps that read JSON see what was sent
			warnings := created.warnings
			if created, err = r.creating(created.Object.Bytes(), by); err != nil {
				return verdict, err
			}
			created.warnings = warnings
		}
		for _, route := range r.pods {
			if route.Chain.Mutates() != mutates || !route.Covers(created) || route.Untouched(created) != "" {
				continue
			}
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

// creating returns a request of a user who creates a pod, as a dry run.
func (r *Request) creating(pod []byte, by authenticationv1.UserInfo) (*Request, error) {
	created := &Request{
		UID: r.UID, Kind: metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")),
		Resource:  metav1.GroupVersionResource(corev1.SchemeGroupVersion.WithResource("pods")),
		Operation: admissionv1.Create, Namespace: r.Namespace, UserInfo: by, DryRun: true,
	}
	review, err := document.Parse(created.reviewOf(pod))
	if err != nil {
		return nil, fmt.Errorf("the pod: %w", err)
	}
	created.Review, created.Object = review, review.Root().At("request", "object").Sub()
	created.Name = Meta{created.Object.Root()}.Name()
	return created, nil
}

// reviewOf returns the part of an AdmissionReview that steps read.
func (r *Request) reviewOf(pod []byte) []byte {
	b := make([]byte, 0, len(pod)+1024)
	b = document.AppendText(append(b, `{"request":{"uid":`...), string(r.UID))
	for _, key := range [...]string{"kind", "requestKind"} {
		b = append(b, `,"`+key+`":{"group":"","version":"v1","kind":"Pod"}`...)
	}
	for _, key := range [...]string{"resource", "requestResource"} {
		b = append(b, `,"`+key+`":{"group":"","version":"v1","resource":"pods"}`...)
	}
	b = document.AppendText(append(b, `,"operation":"CREATE","dryRun":true,"namespace":`...), r.Namespace)
	b = document.AppendText(append(b, `,"userInfo":{"username":`...), r.UserInfo.Username)
	b = append(b, `,"groups":[`...)
	for i, group := range r.UserInfo.Groups {
		if i > 0 {
			b = append(b, ',')
		}
		b = document.AppendText(b, group)
	}
	return append(append(append(b, `]},"object":`...), pod...), `}}`...)
}
