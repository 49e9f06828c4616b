package doctor

import (
	"context"
	"errors"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/discovery"
)

// sendsVirtual reports whether the API server is of a version that calls webhooks for TokenReviews and the like.
func (e *Examiner) sendsVirtual(ctx context.Context, group string) bool {
	if !slices.Contains(virtualGroups, group) {
		return false
	}
	minor := discovery.MinorVersion(ctx, e.source)
	return minor > 0 && minor < virtualEnd
}

// virtualEnd is the minor version of Kubernetes from which webhooks are no longer called for TokenReviews and the like.
const virtualEnd = 37

// virtualGroups are the groups of TokenReviews and the like.
var virtualGroups = []string{"authentication.k8s.io", "authorization.k8s.io"}

// authorize asks the API server, which stores nothing.
func (e *Examiner) authorize(ctx context.Context, what authorizer.Attributes) (bool, string, error) {
	if by, err := what.GetFieldSelector(); len(by) > 0 || err != nil {
		return false, "", errors.New("a check with a field selector is not supported here")
	}
	if by, err := what.GetLabelSelector(); len(by) > 0 || err != nil {
		return false, "", errors.New("a check with a label selector is not supported here")
	}
	who := what.GetUser()
	spec := authorizationv1.SubjectAccessReviewSpec{User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(),
		Extra: map[string]authorizationv1.ExtraValue{}}
	for key, values := range who.GetExtra() {
		spec.Extra[key] = values
	}
	if what.IsResourceRequest() {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: what.GetNamespace(), Verb: what.GetVerb(),
			Group: what.GetAPIGroup(), Version: what.GetAPIVersion(), Resource: what.GetResource(), Subresource: what.GetSubresource(),
			Name: what.GetName()}
	} else {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: what.GetPath(), Verb: what.GetVerb()}
	}
	answer, err := access(ctx, e.source, spec)
	return answer.Allowed, answer.Reason, err
}

// AskCaller asks the API server whom it takes the caller for, who then sends what manifests stand for.
func (e *Examiner) AskCaller(ctx context.Context) (authenticationv1.UserInfo, error) {
	if e.caller != nil {
		return *e.caller, nil
	}
	who := authenticationv1.SelfSubjectReview{}
	who.APIVersion, who.Kind = authenticationv1.SchemeGroupVersion.String(), "SelfSubjectReview"
	who, err := reader.One[authenticationv1.SelfSubjectReview](e.source.Ask(ctx, "/apis/authentication.k8s.io/v1/selfsubjectreviews", who))
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	e.caller = &who.Status.UserInfo
	return *e.caller, nil
}
