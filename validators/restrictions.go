package validators

import (
	"context"
	"fmt"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// restriction is a compiled Restriction.
type restriction struct {
	Restriction
	selector labels.Selector // nil: no namespace is asked
	rules    []admit.Rule
}

func compileRestrictions(policy Restrictions) (all []restriction) {
	for _, one := range policy {
		r := restriction{Restriction: one}
		if one.NamespaceSelector != nil {
			r.selector, _ = metav1.LabelSelectorAsSelector(one.NamespaceSelector) // the check has refused one that does not compile
		}
		for _, requests := range one.Requests {
			rule := requests.Rule()
			rule.Versions = []string{"*"} // matchPolicy Equivalent: a request in another version arrives as it is if another rule names that
			r.rules = append(r.rules, rule)
		}
		all = append(all, r)
	}
	return all
}

// restrictions refuses requests of users who may not make them, for objects of any kind, which it does not read.
func restrictions(policy Restrictions, ask admit.Questions) admit.Validator[admit.Meta] {
	all := compileRestrictions(policy)
	return admit.Validator[admit.Meta]{
		Name:    "restrictions",
		Doc:     "refuses what the policy does not let a user create, change, delete or connect to in a namespace",
		For:     admit.AnyKind(policy.Rules()),
		Needs:   []string{admit.CollectionNamespaces},
		Section: restrictionsSection,
		Idle:    len(policy) == 0,
		Run: func(ctx context.Context, req *admit.Request, _ *admit.Meta) (problems field.ErrorList, _ error) {
			covered := false
			of := namespaceOf(req, ask)
			for i := range all {
				r := &all[i]
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if !admit.RulesCover(r.rules, req) {
					continue
				}
				covered = true
				applies, err := r.selects(of)
				if err != nil {
					return nil, err
				}
				if applies && r.binds(req.UserInfo) {
					problems = append(problems, r.refusal(req))
				} else if req.Explained() {
					r.explain(req, applies)
				}
			}
			if !covered && req.Explained() {
				req.Explain("no restriction of the policy is about %s of %s", string(req.Operation), req.ResourceName())
			}
			return problems, nil
		},
	}
}

// explain says why the restriction lets a request pass that it covers.
func (r *restriction) explain(req *admit.Request, applies bool) {
	if applies {
		req.Explain("restriction %s lets user %s pass", r.Name, req.UserInfo.Username)
	} else {
		req.Explain("restriction %s does not select namespace %s", r.Name, req.Namespace)
	}
}

// selects reports whether the namespace with the labels that of returns is selected.
func (r *restriction) selects(of func() (labels.Labels, error)) (bool, error) {
	if r.selector == nil {
		return true, nil
	}
	is, err := of()
	return err == nil && is != nil && r.selector.Matches(is), err
}

// namespaceOf returns a function that returns the labels of the namespace of a request, asked once; nil for an object
// that is in none. A request about a Namespace is in that namespace, with the labels that are stored; with those of the
// new object if nothing is stored yet.
func namespaceOf(req *admit.Request, ask admit.Questions) func() (labels.Labels, error) {
	return sync.OnceValues(func() (labels.Labels, error) {
		switch {
		case req.AboutNamespace() && req.OldObject != nil:
			return admit.AsMeta(req.OldObject).Selectable(), nil
		case req.AboutNamespace():
			return admit.AsMeta(req.Object).Selectable(), nil
		case req.Namespace == "":
			return nil, nil
		}
		namespace, err := ask.NamespaceOf(req)
		return labels.Set(namespace.Labels), err
	})
}

// binds reports whether a user may not do what is restricted.
func (r *restriction) binds(user authenticationv1.UserInfo) bool {
	switch {
	case r.Deny.Contain(user.Username, user.Groups):
		return true
	case controlPlane.Contain(user.Username, user.Groups):
		return false
	case r.Allow != nil:
		return !r.Allow.Contain(user.Username, user.Groups)
	}
	return r.Deny == nil
}

// controlPlane are the users without whom a cluster stands still: if they could not delete pods or remove finalizers,
// nothing would ever be deleted.
var controlPlane = &Users{
	Users:           []string{"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"},
	Groups:          []string{"system:nodes"},
	ServiceAccounts: []string{"kube-system/*"},
}

// userPath is the path of the name of the user in a review.
var userPath = field.NewPath("request", "userInfo", "username")

// refusal returns the problem of a request that is refused.
func (r *restriction) refusal(req *admit.Request) *field.Error {
	verb := strings.ToLower(string(req.Operation))
	if req.Operation == admissionv1.Connect {
		verb = "connect to"
	}
	text := fmt.Sprintf("user %q may not %s %s", req.UserInfo.Username, verb, req.ResourceName())
	if name := req.TargetName(); req.Name == "" && name != "" {
		text += fmt.Sprintf(" %q", name) // the request names a collection
	}
	if req.Namespace != "" {
		text += " in namespace " + req.Namespace
	}
	text += fmt.Sprintf(": restriction %s of the policy", r.Name)
	if r.Allow != nil && !r.Deny.Contain(req.UserInfo.Username, req.UserInfo.Groups) {
		text += " allows it for " + r.Allow.String()
	}
	return field.Forbidden(userPath, text+remedy(r.Message))
}

// remedy returns what a policy says to do instead, or who to ask.
func remedy(message string) string {
	if message == "" {
		return "; ask an administrator of the cluster"
	}
	return "; " + strings.TrimSuffix(message, ".")
}
