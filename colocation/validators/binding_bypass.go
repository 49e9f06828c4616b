package validators

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
)

// bindingBypass lets only the users that may bind pods set the labels and annotations that let every user bind a pod:
// otherwise the owners of pods could grant that to themselves. Every user may remove them, and what an update does not
// change is not checked.
func bindingBypass(policy *sections.Binding) admit.Validator[admit.Pod] {
	users := usersOf(policy)
	var labels []string
	if policy != nil {
		labels = policy.Bypassing()
	}
	return admit.Validator[admit.Pod]{
		Name:    "binding-bypass",
		Doc:     "lets only the policy's users set a label or annotation that lets any user bind the pod",
		Section: sections.BindingSection,
		Gate:    api.GateBindingAdmissionWebhook,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			switch {
			case policy == nil:
				return pass(req, "the policy has no section binding")
			case pod.Deleting():
				return pass(req, "the pod is being deleted, so it cannot be bound")
			}
			set := bypassesSet(labels, policy.BypassAnnotations, pod, storedPod(req))
			if len(set) == 0 {
				return pass(req, "the request adds no label or annotation that lets every user bind the pod")
			}
			if users.mayBind(req) {
				return nil, nil
			}
			denyBinding(req)
			for _, at := range set {
				problems = append(problems, field.Forbidden(at, fmt.Sprintf(
					"user %q may not let every user bind the pod: binding.users of usher's policy does not name the user; "+
						"leave it out, have it set by a user who may bind, or have the user added there", req.UserInfo.Username)))
			}
			return problems, nil
		},
	}
}

// bypassesSet returns the paths of the bypassing labels and annotations that the request adds to the pod or changes.
func bypassesSet(labels, annotations []string, pod, old *admit.Pod) (set []*field.Path) {
	for _, key := range labels {
		if pod.HasLabel(key) && (old == nil || !old.HasLabel(key) || old.Label(key) != pod.Label(key)) {
			set = append(set, admit.LabelPath(key))
		}
	}
	for _, key := range annotations {
		if now, has := pod.Annotation(key); has && !keepsAnnotation(old, key, now) {
			set = append(set, admit.AnnotationPath(key))
		}
	}
	return set
}
