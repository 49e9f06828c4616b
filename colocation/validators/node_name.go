package validators

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
)

// nodeName treats spec.nodeName of a new pod as a binding by the user that creates the pod. Such a pod never passes a
// scheduler, and no Binding is ever sent for it. Bypass labels do not count here: they are meant for pods that other
// users bind.
func nodeName(policy *sections.Binding) admit.Validator[admit.Pod] {
	users := usersOf(policy)
	return admit.Validator[admit.Pod]{
		Name:    "node-name",
		Doc:     "lets only the policy's users create pods that name their node",
		Section: sections.BindingSection,
		Gate:    api.GateBindingAdmissionWebhook,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			switch {
			case req.Operation != admissionv1.Create:
				return pass(req, "only new pods are checked for spec.nodeName")
			case pod.NodeName() == "":
				return pass(req, "spec.nodeName is empty: the scheduler chooses the node")
			case users.mayBind(req):
				return nil, nil
			}
			denyBinding(req)
			return field.ErrorList{field.Forbidden(admit.NodeNamePath, fmt.Sprintf(
				"user %q may not bind pods to nodes, and so not create one on node %.63q: binding.users of usher's policy does not name the user; "+
					"remove the field and leave the node to the scheduler (spec.affinity can ask for one), or have the user added there",
				req.UserInfo.Username, pod.NodeName()))}, nil
		},
	}
}
