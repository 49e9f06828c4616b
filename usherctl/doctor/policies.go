package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// policyKinds are the kinds of admission policies of the API server itself. Each has a kind of bindings.
var policyKinds = []string{validatingPolicy, "MutatingAdmissionPolicy"}

const validatingPolicy = "ValidatingAdmissionPolicy"

// admissionPolicy is an admission policy, or a binding, as far as they are examined.
type admissionPolicy struct {
	kind     string
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		FailurePolicy    registration.FailurePolicyType
		ParamKind        *registration.ParamKind
		MatchConstraints *registration.MatchResources
		MatchConditions  []registration.MatchCondition
		Variables        []registration.Variable
		Validations      []registration.Validation // of a ValidatingAdmissionPolicy, as are AuditAnnotations
		AuditAnnotations []registration.AuditAnnotation
		// What follows is of a binding.
		PolicyName        string
		ParamRef          *registration.ParamRef
		MatchResources    *registration.MatchResources
		ValidationActions []registration.ValidationAction
	}
	malformed bool                       // a part of it could not be decoded
	stored    *unstructured.Unstructured // as a whole
}

// object names the policy in findings.
func (p admissionPolicy) object() string { return p.kind + " " + p.Metadata.Name }

// entry returns what of a policy, or of a binding, is as in a webhook, beside what it matches.
func (p admissionPolicy) entry() entry { return entry{kind: p.kind, configuration: p.Metadata} }

// admissionPolicies are the admission policies of a kind, and their bindings.
type admissionPolicies struct {
	kind               string
	policies, bindings []admissionPolicy
}

// readPolicies reads the admission policies of a kind and their bindings. A version of Kubernetes that has none is fine. If they may not be
// read, there are none; one of a file that is malformed is among them, and a problem.
func readPolicies(ctx context.Context, source reader.Source, kind string) (all admissionPolicies, problems []error) {
	all.kind = kind
	resource := strings.TrimSuffix(strings.ToLower(kind), "y")
	policies, err := source.List(ctx, reader.NewKind(registrationGroup, "v1", kind, resource+"ies"), "")
	bindings, bindingsErr := source.List(ctx, reader.NewKind(registrationGroup, "v1", kind+"Binding", resource+"ybindings"), "")
	if err = cmp.Or(missingIsFine(err), missingIsFine(bindingsErr)); err != nil {
		return all, []error{err}
	}
	all.policies, problems = decodePolicies(kind, policies)
	bound, malformed := decodePolicies(kind+"Binding", bindings)
	all.bindings = bound
	return all, append(problems, malformed...)
}

// decodePolicies decodes policies, or bindings. A malformed one is among them, and a problem.
func decodePolicies(kind string, list []json.RawMessage) (all []admissionPolicy, problems []error) {
	for _, raw := range list {
		p := admissionPolicy{kind: kind, stored: &unstructured.Unstructured{}}
		if err := reader.Decode(raw, &p); err != nil {
			p.malformed, problems = true, append(problems, err)
		}
		_ = json.Unmarshal(raw, &p.stored.Object) // it is JSON
		p.stored.SetGroupVersionKind(registration.SchemeGroupVersion.WithKind(kind))
		all = append(all, p)
	}
	return all, problems
}

// missingIsFine returns an error, unless it says that there is no such kind.
func missingIsFine(err error) error {
	if errors.Is(err, reader.ErrNotFound) {
		return nil
	}
	return err
}

// problems returns the findings for admission policies that have no effect, or that refuse what they cannot judge.
func (all admissionPolicies) problems(ctx context.Context, f *snapshot) (found []report.Finding) {
	for _, b := range all.bindings {
		policy := all.bound(b)
		switch {
		case b.malformed:
		case policy == nil:
			found = append(found, all.unbound(b))
		case !policy.malformed:
			found = append(found, b.matchProblems(b.Spec.MatchResources, webhookmatch.RulesOf(policy.Spec.MatchConstraints), f)...)
			found = append(found, b.paramProblems(ctx, f, *policy)...)
		}
	}
	for _, p := range all.policies {
		if p.malformed {
			continue
		}
		found = append(found, p.matchProblems(p.Spec.MatchConstraints, nil, f)...)
		bound := all.isBound(p)
		if bound {
			found = append(found, p.conditionProblems()...)
		} else {
			found = append(found, p.problem("policy-not-bound", "no %sBinding names it: it is without effect. Its conditions were not looked at.", p.kind))
		}
		found = append(found, p.paramKindProblem(ctx, f, bound)...)
	}
	return found
}

// isBound reports whether a binding names a policy.
func (all admissionPolicies) isBound(p admissionPolicy) bool {
	return slices.ContainsFunc(all.bindings, func(b admissionPolicy) bool { return b.Spec.PolicyName == p.Metadata.Name })
}

// bound returns the policy of a binding, or nil.
func (all admissionPolicies) bound(b admissionPolicy) *admissionPolicy {
	if i := slices.IndexFunc(all.policies, func(p admissionPolicy) bool { return p.Metadata.Name == b.Spec.PolicyName }); i >= 0 {
		return &all.policies[i]
	}
	return nil
}

// unbound returns the finding for a binding whose policy does not exist. A policy of nearly the same name that nothing binds was meant.
func (all admissionPolicies) unbound(b admissionPolicy) report.Finding {
	var free []string
	for _, p := range all.policies {
		if !all.isBound(p) {
			free = append(free, p.Metadata.Name)
		}
	}
	const missing = "it binds the %s %s, which does not exist: nothing is checked or changed by it."
	if meant := nearest.Of(b.Spec.PolicyName, free); meant != "" {
		return b.problem("policy-missing", missing+" Did you mean %s, which nothing binds?", all.kind, b.Spec.PolicyName,
			meant)
	}
	return b.problem("policy-missing", missing+" Apply the policy, or remove the binding.", all.kind, b.Spec.PolicyName)
}

// problem returns a finding about a policy, or a binding.
func (p admissionPolicy) problem(id, format string, args ...any) report.Finding {
	one := problem(id, subject{entry: p.entry()}, format, args...)
	one.Object = p.object()
	return one
}

// said returns findings about a webhook as ones about a policy, or a binding.
func (p admissionPolicy) said(found []report.Finding) []report.Finding {
	for i := range found {
		found[i].Object, found[i].Message = p.object(), asPolicy.Replace(found[i].Message)
	}
	return found
}

// asPolicy replaces what is said of webhooks.
var asPolicy = strings.NewReplacer("the webhook is never called", "the policy is never asked",
	"The webhook is never called", "The policy is never asked", "never calls the webhook", "never asks the policy",
	"The webhook is called", "The policy is asked", "the webhook is called", "the policy is asked",
	"the webhook is not called", "the policy is not asked", "The webhook is not called", "The policy is not asked",
	"the webhook is also called", "the policy is also asked", "does not reach the webhook", "does not reach the policy")

// matchProblems returns what is wrong with what a policy or a binding matches, as of a webhook. A binding has the rules of its policy, unless
// it has some of its own.
func (p admissionPolicy) matchProblems(m *registration.MatchResources, rules []registration.RuleWithOperations, f *snapshot) []report.Finding {
	if m == nil {
		return nil
	}
	w := p.entry()
	w.Hook = webhooks.Hook{Rules: webhookmatch.RulesOf(m), MatchPolicy: m.MatchPolicy, NamespaceSelector: m.NamespaceSelector,
		ObjectSelector: m.ObjectSelector}
	found := slices.Concat(ruleProblems(w, f.resources), exactProblem(w, f.resources))
	if len(w.Rules) == 0 {
		w.Rules = rules
	}
	return p.said(slices.Concat(found, namespaceProblems(w, f.namespaces, f.resources), objectSelectorProblems(w)))
}

// conditionProblems returns what is wrong with the match conditions of a policy, as of a webhook. The API server stores none that does not compile.
func (p admissionPolicy) conditionProblems() []report.Finding {
	w := p.entry()
	w.Rules, w.MatchConditions = webhookmatch.RulesOf(p.Spec.MatchConstraints), p.Spec.MatchConditions
	if p.Spec.FailurePolicy != "" {
		w.FailurePolicy = &p.Spec.FailurePolicy
	}
	found := append(neverProblem(w), failingProblems(w)...)
	for i, v := range p.Spec.Validations { // namespaceObject is not null there
		if !strings.Contains(v.Expression, "namespaceObject") {
			checked := w
			name := fmt.Sprintf("spec.validations[%d]", i)
			checked.MatchConditions = append(slices.Clone(w.MatchConditions), registration.MatchCondition{Name: name, Expression: v.Expression})
			for _, f := range failingProblems(checked) {
				if strings.HasPrefix(f.Message, "the match condition "+name+", ") {
					f.Message = strings.TrimPrefix(f.Message, "the match condition ")
					found = append(found, f)
				}
			}
		}
	}
	return p.said(found)
}

// fails reports whether a policy refuses what it cannot judge.
func (p admissionPolicy) fails() bool { return p.Spec.FailurePolicy != registration.Ignore }

// cannotJudge says what becomes of requests that a policy cannot judge.
func (p admissionPolicy) cannotJudge() string {
	if p.fails() {
		return "With failurePolicy Fail, the requests that a binding of it is for are refused."
	}
	return "With failurePolicy Ignore, it is without effect."
}
