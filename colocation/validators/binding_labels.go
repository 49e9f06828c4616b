package validators

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
)

// bindingLabels keeps Bindings from moving pods to other quotas: the API server copies a Binding's labels to its pod,
// replacing existing ones (feature gate PodTopologyLabelsAdmission, on by default since Kubernetes 1.35). Schedulers
// send no quota label, so there is no need to evaluate such a move.
func bindingLabels() admit.Validator[views.Binding] {
	return admit.Validator[views.Binding]{
		Name: "binding-labels",
		Doc:  "refuses Bindings that give their pod another elastic quota",
		Gate: api.GateEnableQuotaAdmission,
		Run: func(_ context.Context, req *admit.Request, b *views.Binding) (field.ErrorList, error) {
			if !b.HasLabel(api.LabelQuotaName) {
				req.Explain("the Binding has no label %s", api.LabelQuotaName)
				return nil, nil
			}
			return field.ErrorList{field.Forbidden(quotaPath,
				"the API server would copy it to the pod, past the pod's quota; leave it out, and label the pod itself")}, nil
		},
	}
}
