package validators

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
)

// bindingLabels keeps Bindings from changing what pods count for: the API server copies a Binding's annotations to its
// pod, and its labels, too (feature gate PodTopologyLabelsAdmission, on by default since Kubernetes 1.35), replacing
// existing ones. Schedulers send neither the quota label nor the annotations that count for quotas, so there is no need to
// evaluate such a change.
func bindingLabels(counting quota.Counting) admit.Validator[views.Binding] {
	return admit.Validator[views.Binding]{
		Name:    "binding-labels",
		Doc:     "refuses Bindings that give their pod another elastic quota, or other resources to count",
		Section: sections.BindingSection,
		Gate:    api.GateEnableQuotaAdmission,
		Run: func(_ context.Context, req *admit.Request, b *views.Binding) (problems field.ErrorList, _ error) {
			const detail = "the API server would copy it to the pod, past the pod's quota; leave it out, and set it on the pod itself"
			if b.HasLabel(api.LabelQuotaName) {
				problems = append(problems, field.Forbidden(quotaPath, detail))
			}
			for _, annotation := range []struct {
				key    string
				counts bool
			}{{api.AnnotationReplaceResources, counting.Replace}, {api.AnnotationDeviceClaims, counting.Devices}} {
				if _, has := b.Annotation(annotation.key); has && annotation.counts {
					problems = append(problems, field.Forbidden(admit.AnnotationPath(annotation.key), detail))
				}
			}
			if len(problems) == 0 {
				req.Explain("the Binding changes nothing that counts for quotas")
			}
			return problems, nil
		},
	}
}
