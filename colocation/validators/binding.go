package validators

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
)

// PodKeys returns the keys of the labels and annotations of a stored pod. known is false if there is no such pod. The error wraps
// admit.ErrNotReady if the pod may just not have been observed yet; the step then fails instead of guessing.
type PodKeys func(namespace, name string) (labels, annotations []string, known bool, err error)

// binding lets only the users of the policy bind pods to nodes: any other binding bypasses the scheduler with its
// quotas, reservations and placement. A label or an annotation of the pod lets every user bind it; the audit log
// records the decision.
func binding(policy *sections.Binding, pods PodKeys) admit.Validator[views.Binding] {
	users := usersOf(policy)
	return admit.Validator[views.Binding]{
		Name:    "binding",
		Doc:     "lets only the policy's users bind pods to nodes, unless the pod carries a bypass label or annotation",
		Section: sections.BindingSection,
		Gate:    api.GateBindingAdmissionWebhook,
		Needs:   []string{api.CollectionPods},
		Run: func(_ context.Context, req *admit.Request, b *views.Binding) (field.ErrorList, error) {
			if users.mayBind(req) {
				return nil, nil
			}
			bypassed, known, err := users.bypassed(req, pods, boundPod(req, b))
			switch {
			case err != nil:
				return nil, fmt.Errorf("reading pod %s/%s: %w", req.Namespace, boundPod(req, b), err)
			case bypassed:
				return nil, nil
			}
			denyBinding(req)
			return field.ErrorList{bindingProblem(policy, req, b, known)}, nil
		},
	}
}

// allowBinding records a decision in the audit log, in the reference's words, and explains it.
func allowBinding(req *admit.Request, decision, why string, names ...string) {
	req.Audit("binding", decision)
	req.Explain(why, names...)
}

func denyBinding(req *admit.Request) { req.Audit("binding", "denied") }

// mayBind reports whether the policy lets the user of a request bind any pod of its namespace, and records that.
func (b binders) mayBind(req *admit.Request) bool {
	switch policy := b.policy; {
	case policy == nil || len(policy.Users) == 0:
		req.Explain("binding.users of the policy names no user: every user may bind pods")
	case b.allow(req.UserInfo.Username):
		allowBinding(req, "allowed_username", "binding.users of the policy names user %s", req.UserInfo.Username)
	case slices.Contains(policy.Excluded(), req.Namespace):
		allowBinding(req, "excluded_ns", "the policy's section binding excludes namespace %s", req.Namespace)
	case !slices.Contains(policy.Namespaces, sections.AllNamespaces) && !slices.Contains(policy.Namespaces, req.Namespace):
		allowBinding(req, "out_of_scope", "binding.namespaces of the policy does not name namespace %s", req.Namespace)
	default:
		return false
	}
	return true
}

// bypassed reports whether a label or an annotation of a pod lets every user bind it, and records that. An unknown pod has neither.
func (b binders) bypassed(req *admit.Request, pods PodKeys, name string) (bypassed, known bool, err error) {
	if len(b.policy.Bypassing()) == 0 && len(b.policy.BypassAnnotations) == 0 {
		return false, true, nil
	}
	labels, annotations, known, err := pods(req.Namespace, name)
	switch {
	case err != nil:
		return false, false, err
	case hasAny(labels, b.policy.Bypassing()):
		allowBinding(req, "bypass_label", "the pod has a label that lets every user bind it")
	case hasAny(annotations, b.policy.BypassAnnotations):
		allowBinding(req, "bypass_annotation", "the pod has an annotation that lets every user bind it")
	default:
		return false, known, nil
	}
	return true, known, nil
}

func hasAny(present, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(present, key) })
}

// boundPod returns the name of the pod. The API server takes it from the URL of pods/binding, and from the object of
// the older resource bindings, whose URL has none.
func boundPod(req *admit.Request, b *views.Binding) string {
	if req.Resource.Resource == "bindings" {
		return cmp.Or(b.Name(), req.Name)
	}
	return req.TargetName()
}

func bindingProblem(policy *sections.Binding, req *admit.Request, b *views.Binding, known bool) *field.Error {
	detail := fmt.Sprintf("user %q may not bind pod %s/%s to node %q: binding.users of usher's policy does not name the user; "+
		"leave it to the scheduler, or have the user added there", req.UserInfo.Username, req.Namespace, boundPod(req, b), b.Target())
	if keys := slices.Concat(policy.Bypassing(), policy.BypassAnnotations); len(keys) > 0 {
		detail += "; a pod that anybody may bind carries " + strings.Join(keys, " or ")
	}
	if !known {
		detail += "; usher knows no such pod, so it looked for none of these"
	}
	return field.Forbidden(views.BindingTargetPath, detail)
}

// binders are the users of a policy: exact names, and the prefixes before a "*", including the colon.
type binders struct {
	policy          *sections.Binding // nil: every user may bind
	names, prefixes map[string]bool
}

func usersOf(policy *sections.Binding) binders {
	b := binders{policy, map[string]bool{}, map[string]bool{}}
	if policy == nil {
		return b
	}
	for _, user := range policy.Users {
		if prefix, ok := strings.CutSuffix(user, sections.AnyPart); ok {
			b.prefixes[prefix+":"] = true
		} else {
			b.names[user] = true
		}
	}
	return b
}

// allow reports whether a user is one of them. A "*" matches exactly one part of a name: not empty, and without a
// colon.
func (b binders) allow(user string) bool {
	last := strings.LastIndex(user, ":") + 1
	return b.names[user] || last > 0 && last < len(user) && b.prefixes[user[:last]]
}
