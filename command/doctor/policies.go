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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/review"
	"usher.dev/usher/command/webhookmatch"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/server/webhooks"
)

// policyKinds are the kinds of admission policies of the API server itself. Each has a kind of bindings.
var policyKinds = []string{validatingPolicy, "MutatingAdmissionPolicy"}

const validatingPolicy = "ValidatingAdmissionPolicy"

// admissionPolicy is an admission policy, or a binding, as far as they are examined.
type admissionPolicy struct {
	metav1.TypeMeta
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
	malformed bool // a part of it could not be decoded
}

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
	decoded := func(list []json.RawMessage) []admissionPolicy {
		each := make([]admissionPolicy, len(list))
		for i, raw := range list {
			if err := reader.Decode(raw, &each[i]); err != nil {
				each[i].malformed, problems = true, append(problems, err)
			}
		}
		return each
	}
	all.policies, all.bindings = decoded(policies), decoded(bindings)
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
func (all admissionPolicies) problems(ctx context.Context, f *snapshot) (found []review.Finding) {
	for _, b := range all.bindings {
		policy := all.bound(b)
		switch {
		case b.malformed:
			continue
		case policy == nil:
			found = append(found, all.unbound(b))
			continue
		case policy.malformed:
			continue
		}
		found = append(found, matchProblems(all.kind+"Binding", b, b.Spec.MatchResources, rulesOf(policy.Spec.MatchConstraints), f)...)
		found = append(found, all.paramProblems(ctx, f, b, *policy)...)
	}
	for _, p := range all.policies {
		if p.malformed {
			continue
		}
		found = append(found, matchProblems(all.kind, p, p.Spec.MatchConstraints, nil, f)...)
		found = append(found, conditionsOf(all.kind, p)...)
		bound := slices.ContainsFunc(all.bindings, func(b admissionPolicy) bool { return b.Spec.PolicyName == p.Metadata.Name })
		if !bound {
			found = append(found, aboutPolicy(all.kind, p, "policy-not-bound", nil, "no %sBinding names it: it is without effect.", all.kind))
		}
		found = append(found, paramKindProblem(ctx, f, all.kind, p, bound)...)
	}
	return found
}

// bound returns the policy of a binding, or nil.
func (all admissionPolicies) bound(b admissionPolicy) *admissionPolicy {
	if i := slices.IndexFunc(all.policies, func(p admissionPolicy) bool { return p.Metadata.Name == b.Spec.PolicyName }); i >= 0 {
		return &all.policies[i]
	}
	return nil
}

// unbound returns the finding for a binding whose policy does not exist. A policy of nearly the same name that nothing binds was meant.
func (all admissionPolicies) unbound(b admissionPolicy) review.Finding {
	var free []string
	for _, p := range all.policies {
		if !slices.ContainsFunc(all.bindings, func(other admissionPolicy) bool { return other.Spec.PolicyName == p.Metadata.Name }) {
			free = append(free, p.Metadata.Name)
		}
	}
	const missing = "it binds the %s %s, which does not exist: nothing is checked or changed by it."
	if meant := nearest.Of(b.Spec.PolicyName, free); meant != "" {
		return aboutPolicy(all.kind+"Binding", b, "policy-missing", []change{{"policyName", meant}}, missing+" Did you mean %s, which nothing binds?", all.kind, b.Spec.PolicyName, meant)
	}
	return aboutPolicy(all.kind+"Binding", b, "policy-missing", nil, missing+" Apply the policy, or remove the binding.", all.kind, b.Spec.PolicyName)
}

// aboutPolicy returns a finding about a policy, or a binding.
func aboutPolicy(kind string, p admissionPolicy, id string, changes []change, format string, args ...any) review.Finding {
	one := problem(id, subject{entry: entry{kind: kind, configuration: p.Metadata}, changes: changes}, format, args...)
	one.Object = kind + " " + p.Metadata.Name
	return one
}

// rulesOf returns the rules of what a policy matches.
func rulesOf(m *registration.MatchResources) (all []registration.RuleWithOperations) {
	if m == nil {
		return nil
	}
	for _, r := range m.ResourceRules {
		all = append(all, r.RuleWithOperations)
	}
	return all
}

// asPolicy replaces what is said of webhooks.
var asPolicy = strings.NewReplacer("the webhook is never called", "the policy is never asked", "The webhook is never called", "The policy is never asked",
	"never calls the webhook", "never asks the policy", "The webhook is called", "The policy is asked", "the webhook is called", "the policy is asked",
	"the webhook is not called", "the policy is not asked", "The webhook is not called", "The policy is not asked", "the webhook is also called", "the policy is also asked", "does not reach the webhook", "does not reach the policy")

// matchProblems returns what is wrong with what a policy or a binding matches, as of a webhook. A binding has the rules of its policy, unless
// it has some of its own.
func matchProblems(kind string, p admissionPolicy, m *registration.MatchResources, rules []registration.RuleWithOperations, f *snapshot) (found []review.Finding) {
	if m == nil {
		return nil
	}
	own := rulesOf(m)
	w := entry{kind: kind, configuration: p.Metadata, Hook: webhooks.Hook{Rules: own, MatchPolicy: m.MatchPolicy, NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector}}
	found = slices.Concat(ruleProblems(w, f.resources), exactProblem(w, f.resources))
	if len(own) == 0 {
		w.Rules = rules
	}
	found = slices.Concat(found, namespaceProblems(w, f.namespaces, f.resources), objectSelectorProblems(w))
	for i := range found {
		found[i].Object, found[i].Message = kind+" "+p.Metadata.Name, asPolicy.Replace(found[i].Message)
	}
	return found
}

// conditionsOf returns what is wrong with the match conditions of a policy, as of a webhook. The API server stores none that does not compile.
func conditionsOf(kind string, p admissionPolicy) (found []review.Finding) {
	w := entry{kind: kind, configuration: p.Metadata, Hook: webhooks.Hook{Rules: rulesOf(p.Spec.MatchConstraints), MatchConditions: p.Spec.MatchConditions}}
	if p.Spec.FailurePolicy != "" {
		w.FailurePolicy = &p.Spec.FailurePolicy
	}
	matcher := &webhookmatch.Matcher{}
	found = append(neverProblem(w, matcher), failingProblems(w, matcher)...)
	for i := range found {
		found[i].Object, found[i].Message = kind+" "+p.Metadata.Name, asPolicy.Replace(found[i].Message)
	}
	return found
}

// paramKindProblem returns the finding for a policy whose parameters are of a kind that the API server does not serve.
func paramKindProblem(ctx context.Context, f *snapshot, kind string, p admissionPolicy, bound bool) []review.Finding {
	if p.Spec.ParamKind == nil {
		return nil
	}
	_, err := f.paramResource(ctx, *p.Spec.ParamKind)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, errNotServed):
		return []review.Finding{unreadFinding(err, "the parameters of the "+kind+" "+p.Metadata.Name)}
	}
	missing := aboutPolicy(kind, p, "policy-param-kind", nil, "spec.paramKind is %s %s, which the API server does not serve. %s Install its CustomResourceDefinition, or correct "+
		"the kind.", p.Spec.ParamKind.APIVersion, p.Spec.ParamKind.Kind, p.cannotJudge())
	if !bound || !p.fails() {
		missing = milder(missing, review.Warning)
	}
	return []review.Finding{missing}
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

// errNotServed is the error of a kind that the API server does not serve.
var errNotServed = errors.New("it is not served")

// paramResource returns the resource of a kind of parameters. That of files is known only if Kubernetes has it, or a file.
func (f *snapshot) paramResource(ctx context.Context, of registration.ParamKind) (reader.Resource, error) {
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	r := f.source.ResourceOf(ctx, kind)
	unreadable := errors.As(r.Err, new(*reader.UnreadableError)) && !errors.Is(r.Err, reader.ErrNotFound)
	switch {
	case r.Err == nil:
		return r, nil
	case unreadable:
		return r, r.Err
	case !f.source.Live() && (strings.Contains(kind.Group, ".") || slices.ContainsFunc(resources.Kinds(), func(k resources.Kind) bool { return k.GroupKind == kind.GroupKind() })):
		return r, nil
	}
	return r, errNotServed
}

// paramProblems returns the finding for a binding whose parameters do not exist. Those in the namespace of each request are not looked for,
// and neither are those of files.
func (all admissionPolicies) paramProblems(ctx context.Context, f *snapshot, b, policy admissionPolicy) []review.Finding {
	ref, of := b.Spec.ParamRef, policy.Spec.ParamKind
	if ref == nil || of == nil || !f.source.Live() {
		return nil
	}
	r, err := f.paramResource(ctx, *of)
	if err != nil || r.Namespaced && ref.Namespace == "" {
		return nil // an unknown kind is reported for the policy; parameters in the namespace of the request differ by request
	}
	exists, err := f.hasParam(ctx, *ref, schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), r.Name)
	if err != nil {
		return []review.Finding{unreadFinding(err, "the parameters of the "+all.kind+"Binding "+b.Metadata.Name)}
	}
	if exists {
		return nil
	}
	which := strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
	if ref.Name == "" {
		which = "with the labels " + metav1.FormatLabelSelector(ref.Selector)
	}
	deny := ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == registration.DenyAction
	then := "parameterNotFoundAction is Allow, so it is without effect."
	if deny {
		then = "parameterNotFoundAction is Deny. " + policy.cannotJudge()
	}
	missing := aboutPolicy(all.kind+"Binding", b, "policy-param-missing", nil, "spec.paramRef names the %s %s, which does not exist. %s Create it, or correct the name.", of.Kind, which, then)
	if !deny || !policy.fails() {
		missing = milder(missing, review.Warning)
	}
	return []review.Finding{missing}
}

// hasParam reports whether there is a parameter that a reference names.
func (f *snapshot) hasParam(ctx context.Context, ref registration.ParamRef, of schema.GroupVersionKind, resource string) (bool, error) {
	kind := reader.NewKind(of.Group, of.Version, of.Kind, resource)
	if ref.Name != "" {
		_, err := f.source.Get(ctx, kind, ref.Namespace, ref.Name)
		if errors.Is(err, reader.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	selects, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return false, fmt.Errorf("spec.paramRef.selector: %w", err)
	}
	objects, err := reader.All[metav1.PartialObjectMetadata](f.source.List(ctx, kind, ref.Namespace))
	return slices.ContainsFunc(objects, func(o metav1.PartialObjectMetadata) bool { return selects.Matches(labels.Set(o.Labels)) }), err
}
