package validators

import (
	"context"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/labelling"
)

// templateLabelRules judges the pod templates of workloads by the rules that ask for it, so that the author of the
// workload reads the refusal. A label that label-defaults would set on the pods is not missing.
func templateLabelRules(rules LabelRules, defaults labelling.Defaults, ask admit.Questions) admit.Validator[admit.Workload] {
	compiled := compileLabelRules(rules, func(r LabelRule) bool { return r.Workloads && r.Match == nil })
	filler := defaults.Compile()
	return admit.Validator[admit.Workload]{
		Name: labelRulesName, Doc: labelRulesDoc, For: admit.Workloads(admissionv1.Create, admissionv1.Update),
		Needs: []string{admit.CollectionNamespaces}, Section: labelRulesSection, Idle: len(compiled) == 0,
		Run: func(ctx context.Context, req *admit.Request, workload *admit.Workload) (field.ErrorList, error) {
			if finalizing(req) {
				return nil, nil
			}
			namespace := sync.OnceValues(func() (admit.Namespace, error) { return ask.NamespaceOf(req) })
			judged, err := templateLabels(ctx, req, workload, filler, namespace)
			if err != nil {
				return nil, err
			}
			problems, err := judgeLabels(ctx, req, compiled, &judged, func() (map[string]string, error) {
				ns, err := namespace()
				return ns.Labels, err
			})
			if judged.now.Root().Err() != nil { // in a copy: the same reads report it with the template's path
				workload.Template().Labels()
				workload.Template().Annotations()
			}
			return problems, err
		},
	}
}

// appliedDefaults returns the defaults that new pods get: none if the step does not change pods.
func appliedDefaults(policy *config.Policy) labelling.Defaults {
	if !changes(policy, "label-defaults") {
		return nil
	}
	return config.SectionOf[labelling.Defaults](policy)
}

// templateLabels returns what the rules judge of a workload: the labels of its pods after label-defaults.
func templateLabels(
	ctx context.Context, req *admit.Request, workload *admit.Workload, filler *labelling.Filler, namespace func() (admit.Namespace, error),
) (judged labelled, err error) {
	template := workload.Template()
	judged.at = template.Meta
	if judged.now, err = filled(ctx, template, filler, namespace); err != nil || req.OldObject == nil {
		return judged, err
	}
	stored := admit.AsWorkload(req.OldObject).Template()
	old, err := filled(ctx, stored, filler, namespace)
	judged.old, judged.renewed = &old, !template.Same(stored)
	return judged, err
}

// filled returns the metadata of a template with the defaults that its pods get.
func filled(ctx context.Context, template *admit.Pod, filler *labelling.Filler, namespace func() (admit.Namespace, error)) (admit.Meta, error) {
	if filler.Empty() {
		return template.Meta, nil
	}
	pod := template.Copy()
	_, err := filler.Fill(ctx, pod.Meta, namespace)
	return pod.Meta, err
}
