package validators

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// WorkloadPolicy says what becomes of a workload whose pods would be refused.
type WorkloadPolicy struct {
	Mode admit.Mode `json:"mode,omitempty" doc:"enforce refuses the workload, warn returns a warning to its author" default:"warn"`
}

// workloadsSection is the section workloads.
var workloadsSection = config.Section[*WorkloadPolicy]{Name: "workloads", Setting: true,
	Tag: `doc:"what becomes of a Deployment, or another object with a pod template, whose pods would be refused"`}

const workloadsName = "workloads"

// workloads judges a workload by the pod that its controller would create: the routes for pods of the suite run on it. Only
// what is new is judged, so that a rollout costs nothing: the template, or the name, which its pods begin with. What
// templateLabelRules says is not said twice.
func workloads(policy *WorkloadPolicy, rules LabelRules, ask admit.Questions) admit.Validator[admit.Workload] {
	mode := admit.Warn
	if policy != nil {
		mode = cmp.Or(policy.Mode, admit.Warn)
	}
	return admit.Validator[admit.Workload]{
		Name: workloadsName, Doc: "warns the author of a workload, or refuses it, if its pods would be refused", For: admit.PodTemplates(admissionv1.Create, admissionv1.Update),
		Needs: []string{admit.CollectionNamespaces, admit.CollectionLimitRanges}, Section: workloadsSection, Idle: mode == admit.Off,
		Mode: mode, OfPods: true,
		Run: func(ctx context.Context, req *admit.Request, workload *admit.Workload) (field.ErrorList, error) {
			kind, known := workload.WorkloadKind()
			if !known || finalizing(req) || sameTemplate(req, kind) {
				req.Explain("the template of the pods is what it was")
				return nil, nil
			}
			ranges, err := ask.LimitRanges(req.Namespace)
			if err != nil {
				return nil, fmt.Errorf("namespace %s: %w", req.Namespace, err)
			}
			verdict, err := judgeWorkload(ctx, req, kind, ranges)
			problems := kind.InWorkload(slices.DeleteFunc(verdict.Problems, func(p admit.Problem) bool { return ofTemplate(req, p, rules) }))
			if len(problems) == 0 {
				req.Explain("nothing refuses its pods, apart from label rules that judge workloads themselves")
			}
			return problems, err
		},
	}
}

// ofTemplate reports whether a problem is one that templateLabelRules judges.
func ofTemplate(req *admit.Request, p admit.Problem, rules LabelRules) bool {
	return p.Step == labelRulesName && slices.ContainsFunc(admit.Workloads(req.Operation), func(m admit.Match) bool { return m.Covers(req) }) &&
		slices.ContainsFunc(rules, func(r LabelRule) bool { return r.Workloads && strings.HasPrefix(p.Detail, "rule "+r.Name+": ") })
}

// sameTemplate reports whether an update leaves the template as it is.
func sameTemplate(req *admit.Request, kind admit.WorkloadKind) bool {
	return req.OldObject != nil && kind.SameTemplate(req.Object, req.OldObject)
}

// judgeWorkload returns what the routes for pods say of the pod that the controller would create.
func judgeWorkload(ctx context.Context, req *admit.Request, kind admit.WorkloadKind, ranges []*corev1.LimitRange) (verdict admit.PodVerdict, err error) {
	by := req.UserInfo
	if kind.Controller != "" {
		by = authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:" + kind.Controller,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
	}
	verdict, err = req.JudgePod(ctx, kind, by, func(pod *admit.Pod) { pod.FillNew(ranges) })
	for _, warning := range verdict.Warnings {
		req.Warnf("its pods: %s", warning)
	}
	return verdict, err
}

// OfWorkload exempts workloads that another one controls: its template has the same pods, and has been judged.
func OfWorkload(req *admit.Request) string {
	if owner := admit.AsMeta(req.Object).OfWorkload(); owner != "" {
		return "belongs to a " + owner + ", whose pod template is judged in its place"
	}
	return ""
}

// RefusesWorkloads reports whether a policy may refuse workloads, rather than only warn.
func RefusesWorkloads(policy *config.Policy) bool {
	if section := config.SectionOf[*WorkloadPolicy](policy); section != nil && section.Mode == admit.Enforce {
		return true
	}
	enforces := func(o admit.OverrideSpec) bool {
		return slices.Contains(o.Steps, workloadsName) && (o.Mode == admit.Enforce || o.EnforcePercent != nil)
	}
	return config.SectionOf[admit.Modes](policy)[workloadsName] == admit.Enforce || slices.ContainsFunc(config.SectionOf[admit.Overrides](policy), enforces) ||
		slices.ContainsFunc(config.SectionOf[LabelRules](policy), func(r LabelRule) bool { return r.Workloads })
}

// NotOfWorkload returns the match condition for what OfWorkload does not exempt.
func NotOfWorkload() []registration.MatchCondition {
	var kinds []string
	for _, k := range admit.WorkloadKinds() {
		kinds = append(kinds, fmt.Sprintf("%q", metav1.GroupVersion{Group: k.Group, Version: k.Version}.String()+" "+k.Kind))
	}
	return []registration.MatchCondition{{Name: "not-of-workload", Expression: "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o,\n" +
		"has(o.controller) && o.controller && o.apiVersion + \" \" + o.kind in [" + strings.Join(kinds, ", ") + "])"}}
}
