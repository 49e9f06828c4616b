package webhookmatch

import (
	"context"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorize reports whether a user may do something. Without attributes of a resource, they are about a path.
type Authorize func(context.Context, authorizer.Attributes) (allowed bool, reason string, err error)

// ErrUnknown is why a condition has no result that is known.
var ErrUnknown = errors.New("what it asks of the authorizer is known only with --cluster=api")

// attributes returns the request as the API server's own code has it, with the object as the webhook gets it.
func (r Request) attributes(as Equivalent) (*admission.VersionedAttributes, error) {
	object, err := decode(r.Object.Raw, as)
	if err != nil {
		return nil, err
	}
	old, err := decode(r.OldObject.Raw, as)
	if err != nil {
		return nil, err
	}
	info := &user.DefaultInfo{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups, Extra: map[string][]string{}}
	for key, values := range r.UserInfo.Extra {
		info.Extra[key] = values
	}
	own := admission.NewAttributesRecord(object, old, r.kind(), r.Namespace, r.Name, r.resource(), r.subresource(),
		admission.Operation(r.Operation), r.options(), valueOr(r.DryRun, false), info)
	return &admission.VersionedAttributes{Attributes: own, VersionedKind: as.Kind,
		VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old)}, nil
}

// decode returns an object in another version; nil if there is none.
func decode(raw []byte, as Equivalent) (runtime.Object, error) {
	if isAbsent(raw) {
		return nil, nil //nolint:nilnil // as admission.Attributes wants it
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
		return nil, err
	}
	if u.Object == nil {
		return nil, errors.New("it is not an object")
	}
	u.SetGroupVersionKind(as.Kind)
	return u, nil
}

// options returns the options of the operation.
func (r Request) options() runtime.Object {
	var into runtime.Object
	switch r.Operation {
	case "CREATE":
		into = &metav1.CreateOptions{}
	case "UPDATE":
		into = &metav1.UpdateOptions{}
	case "DELETE":
		into = &metav1.DeleteOptions{}
	default:
		return nil
	}
	_ = json.Unmarshal(r.Options.Raw, into) // a manifest has none
	return into
}

// asking is an authorizer that notes whether it was asked what is not known.
type asking struct {
	answer Authorize
	failed error
}

// Authorize answers for the authorizer of the API server.
func (a *asking) Authorize(ctx context.Context, what authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.answer == nil {
		a.failed = ErrUnknown
		return authorizer.DecisionNoOpinion, "", a.failed
	}
	allowed, reason, err := a.answer(ctx, what)
	if err != nil {
		a.failed = err
	}
	if allowed {
		return authorizer.DecisionAllow, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}
