package validators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/validators/workload"
)

// WorkloadPolicy says what becomes of a workload whose pods would be refused.
type WorkloadPolicy struct {
	Mode admit.Mode `json:"mode,omitempty" doc:"enforce refuses the workload, warn returns a warning to its author" default:"warn"`
}

// workloadsSection is the section workloads.
var workloadsSection = config.Section[*WorkloadPolicy]{Name: "workloads", Setting: true,
	Tag: `doc:"what becomes of a Deployment, or another object with a pod template, whose pods would be refused"`}

const workloadsName = "workloads"

// SuitePods is what a suite adds to judge workloads by their pods.
type SuitePods struct {
	Needs []string // of Fill
	// Fill sets in a new pod what the API server sets and the suite reads, beside what workload.FillNew does. It may be nil.
	Fill func(*admit.Pod) error
	// NotJudged names what of the suite's verdict only the pod itself can be judged by; "" for nothing.
	NotJudged string
	// said reports whether another step says a problem.
	said func(*admit.Request, admit.Problem) bool
}

// WorkloadsByPods judges a workload by the pod that its controller would create: the routes for pods of the suite run on it. Only
// what is new is judged, so that a rollout costs nothing: the template, or the name, which its pods begin with.
func WorkloadsByPods(policy *config.Policy, ask admit.Questions, pods SuitePods) admit.Validator[admit.Workload] {
	mode := admit.Warn
	if section := config.SectionOf[*WorkloadPolicy](policy); section != nil {
		mode = cmp.Or(section.Mode, admit.Warn)
	}
	return admit.Validator[admit.Workload]{
		Name: workloadsName, Doc: "warns the author of a workload, or refuses it, if its pods would be refused",
		For:   admit.PodTemplates(admissionv1.Create, admissionv1.Update),
		Needs: append([]string{admit.CollectionNamespaces, admit.CollectionLimitRanges}, pods.Needs...), Section: workloadsSection, Idle: mode == admit.Off,
		Mode: mode, OfPods: true,
		Run: func(ctx context.Context, req *admit.Request, object *admit.Workload) (field.ErrorList, error) {
			kind, known := object.WorkloadKind()
			if !known || finalizing(req) || sameTemplate(req, kind) {
				req.Explain("the template of the pods is what it was")
				return nil, nil
			}
			ranges, err := ask.LimitRanges(req.Namespace)
			if err != nil {
				return nil, fmt.Errorf("namespace %s: %w", req.Namespace, err)
			}
			verdict, err := judgeWorkload(ctx, req, kind, pods.fill(ranges))
			if err != nil {
				return nil, err
			}
			if pods.NotJudged != "" {
				req.Explain("not judged: %s", pods.NotJudged)
			}
			said := func(p admit.Problem) bool { return pods.said != nil && pods.said(req, p) }
			problems := workload.InWorkload(kind, slices.DeleteFunc(verdict.Problems, said))
			if len(problems) > 0 {
				return problems, nil
			}
			return nil, withoutResult(req, mode, verdict.NoResults)
		},
	}
}

// withoutResult is for pods that nothing refuses, and for which rules have no result: usher would fail for the pods. Where
// workloads are refused, it fails for the workload, too; otherwise its author is told.
func withoutResult(req *admit.Request, mode admit.Mode, failures []*admit.NoResultError) error {
	if len(failures) == 0 {
		req.Explain("nothing that is judged here refuses its pods")
		return nil
	}
	var all []error
	for _, failure := range failures {
		all = append(all, failure)
		req.Warnf("its pods could not be judged, and usher would fail for them (HTTP 500): rule %s has no result: %v", failure.Rule, failure.Why)
	}
	if req.ModeOf(workloadsName, mode) == admit.Enforce {
		return fmt.Errorf("the pod: %w", errors.Join(all...))
	}
	req.Audit("not-judged."+workloadsName, fmt.Sprintf("rules without a result: %d", len(failures)))
	return nil
}

// fill returns the function that sets what the API server does in new pods.
func (s SuitePods) fill(ranges []*corev1.LimitRange) func(*admit.Pod) error {
	return func(pod *admit.Pod) error {
		workload.FillNew(pod, ranges)
		if s.Fill == nil {
			return nil
		}
		return s.Fill(pod)
	}
}

// ofCore returns how the core suite judges workloads by their pods. What templateLabelRules says is not said twice.
func ofCore(rules LabelRules) SuitePods {
	return SuitePods{said: func(req *admit.Request, p admit.Problem) bool { return ofTemplate(req, p, rules) }}
}

// ofTemplate reports whether a problem is one that templateLabelRules judges.
func ofTemplate(req *admit.Request, p admit.Problem, rules LabelRules) bool {
	return p.Step == labelRulesName && slices.ContainsFunc(admit.Workloads(req.Operation), func(m admit.Match) bool { return m.Covers(req) }) &&
		slices.ContainsFunc(rules, func(r LabelRule) bool { return r.Workloads && r.Name == p.Origin })
}

// sameTemplate reports whether an update leaves the template as it is.
func sameTemplate(req *admit.Request, kind admit.WorkloadKind) bool {
	return req.OldObject != nil && workload.SameTemplate(kind, req.Object, req.OldObject)
}

// judgeWorkload returns what the routes for pods say of the pod that the controller would create.
func judgeWorkload(ctx context.Context, req *admit.Request, kind admit.WorkloadKind,
	fill func(*admit.Pod) error) (verdict workload.Verdict, err error) {
	by := req.UserInfo
	if kind.Controller != "" {
		by = authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:" + kind.Controller,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
	}
	verdict, err = workload.Judge(ctx, req, kind, by, fill)
	for _, warning := range verdict.Warnings {
		req.Warnf("its pods: %s", warning)
	}
	return verdict, err
}

// OfWorkload exempts workloads that another one controls: its template has the same pods, and has been judged.
func OfWorkload(req *admit.Request) string {
	owner, owned := admit.AsMeta(req.Object).Controller()
	if !owned {
		return ""
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return ""
	}
	if kind, known := admit.WorkloadKindOf(version.WithKind(owner.Kind).GroupKind()); known {
		return "belongs to a " + kind.Kind + ", whose pod template is judged in its place"
	}
	return ""
}

// RefusesWorkloads reports whether the core suite may refuse workloads under a policy, rather than only warn.
func RefusesWorkloads(policy *config.Policy) bool {
	return RefusesByPods(policy) || slices.ContainsFunc(config.SectionOf[LabelRules](policy), func(r LabelRule) bool { return r.Workloads })
}

// RefusesByPods reports whether WorkloadsByPods may refuse workloads under a policy.
func RefusesByPods(policy *config.Policy) bool {
	if section := config.SectionOf[*WorkloadPolicy](policy); section != nil && section.Mode == admit.Enforce {
		return true
	}
	enforces := func(o override.Spec) bool {
		return slices.Contains(o.Steps, workloadsName) && (o.Mode == admit.Enforce || o.EnforcePercent != nil)
	}
	return config.SectionOf[admit.Modes](policy)[workloadsName] == admit.Enforce ||
		slices.ContainsFunc(config.SectionOf[override.List](policy), enforces)
}

// NotOfWorkload returns the match condition for what OfWorkload does not exempt.
func NotOfWorkload() []registration.MatchCondition {
	var kinds []string
	for _, k := range admit.WorkloadKinds() {
		kinds = append(kinds, fmt.Sprintf("%q", metav1.GroupVersion{Group: k.Group, Version: k.Version}.String()+" "+k.Kind))
	}
	return []registration.MatchCondition{{Name: "not-of-workload",
		Expression: "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o,\n" +
			"has(o.controller) && o.controller && o.apiVersion + \" \" + o.kind in [" + strings.Join(kinds, ", ") + "])"}}
}
