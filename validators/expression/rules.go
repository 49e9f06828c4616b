package expression

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
)

// Objects returns the core suite's validators of objects of any kind, for the requests that rules of the policy name.
func Objects(policy *config.Policy, ask admit.Questions) []admit.Validator[admit.Meta] {
	return []admit.Validator[admit.Meta]{
		rules(config.SectionOf[Rules](policy), ask),
	}
}

// rules refuses objects that violate a rule of the policy. All rules that are for a request are evaluated. A violation
// counts more than a failure: what is refused for sure is refused, and only without a violation is a failure ours.
func rules(policy Rules, ask admit.Questions) admit.Validator[admit.Meta] {
	return admit.Validator[admit.Meta]{
		Name:    "rules",
		Doc:     "refuses objects of any kind that violate a rule of the policy, written in CEL; an unchanged violation of a stored object passes",
		For:     admit.AnyKind(policy.Rules()),
		Needs:   []string{admit.CollectionNamespaces},
		Section: section,
		Idle:    len(policy) == 0,
		Run: func(ctx context.Context, req *admit.Request, _ *admit.Meta) (problems field.ErrorList, _ error) {
			r := ruleRun{req: req, ask: ask, review: reviewOf(req)}
			for i := range policy {
				problems = append(problems, r.apply(ctx, &policy[i])...)
			}
			if !r.applied {
				req.Explain("no rule of rules is for this request")
			}
			if len(problems) > 0 {
				return problems, nil
			}
			return nil, errors.Join(r.failures...)
		},
	}
}

// ruleRun is the evaluation of all rules for a request.
type ruleRun struct {
	req      *admit.Request
	ask      admit.Questions
	review   Review
	applied  bool
	failures []error
}

func reviewOf(req *admit.Request) Review {
	review := Review{}
	if req.Object != nil {
		review.Object = req.Object.Root().Raw()
	}
	if req.OldObject != nil {
		review.OldObject = req.OldObject.Root().Raw()
	}
	if req.Review != nil {
		review.Request = req.Review.Root().Get("request").Raw()
	}
	return review
}

// apply returns the problems of one rule, and records its failures.
func (r *ruleRun) apply(ctx context.Context, rule *Rule) field.ErrorList {
	if !admit.RulesCover(rule.compiled.covered, r.req) {
		return nil
	}
	selected, err := r.selects(rule)
	if err == nil && selected && rule.compiled.program.ReadsNamespace() {
		err = r.lookUp()
	}
	if err != nil {
		return r.fail(rule, err)
	}
	if !selected {
		return nil
	}
	r.applied = true
	verdict := rule.compiled.program.Evaluate(ctx, &r.review)
	if verdict.Unmet != "" {
		r.req.Explain("rule %s: match condition %s is false", rule.Name, verdict.Unmet)
	}
	problems := r.problems(rule, verdict)
	for _, failure := range verdict.Failures {
		problems = append(problems, r.fail(rule, failure)...)
	}
	if len(verdict.Violations)+len(verdict.Failures) == 0 && verdict.Unmet == "" {
		r.req.Explain("rule %s: all validations are true", rule.Name)
	}
	return problems
}

// problems returns the violations that are no longer to pass.
func (r *ruleRun) problems(rule *Rule, verdict Verdict) (problems field.ErrorList) {
	for _, v := range verdict.Violations {
		if rule.compiled.ratchets && r.req.Operation == admissionv1.Update && r.ratchet(rule).MayStay(v.Unchanged) {
			r.req.Explain("rule %s: passes, because the stored object has the same: %s", rule.Name, v.Message)
			continue
		}
		r.req.Explain("rule %s: %s", rule.Name, v.Message)
		if r.req.ResourceName() == "secrets" {
			v.Value = field.OmitValueType{} // problems are also audited
		}
		problems = append(problems, violation(rule, v))
	}
	return problems
}

// maxMessage is the maximum length of a message in characters: that of a composed one, in bytes, in the API server.
const maxMessage = celconfig.MaxEvaluatedMessageExpressionSizeBytes

// violation returns a violation as a problem. The reasons that have no type of their own are those with the same code.
func violation(rule *Rule, v Violation) *field.Error {
	said := fmt.Sprintf("%s (rule %s)", admit.Shorten(v.Message, maxMessage), rule.Name)
	switch v.Reason {
	case Forbidden, Unauthorized:
		return field.Forbidden(v.Field, said)
	case TooLarge:
		return &field.Error{Type: field.ErrorTypeTooLong, Field: v.Field.String(), BadValue: field.OmitValueType{}, Detail: said}
	}
	return field.Invalid(v.Field, v.Value, said)
}

// fail records the failure of a rule, or refuses the request if the rule asks for that.
func (r *ruleRun) fail(rule *Rule, err error) field.ErrorList {
	r.applied = true
	r.req.Explain("rule %s: no result: %s", rule.Name, err.Error())
	if rule.OnError == Deny && !isOurs(err) {
		return field.ErrorList{field.Forbidden(field.NewPath("object"),
			fmt.Sprintf("rule %s could not be evaluated, and refuses what it cannot evaluate: %v", rule.Name, err))}
	}
	if isOurs(err) {
		r.failures = append(r.failures, fmt.Errorf("rule %s: %w", rule.Name, err))
	} else {
		r.failures = append(r.failures, &admit.NoResultError{Rule: rule.Name, Why: err})
	}
	return nil
}

// isOurs reports whether a rule has no result because of usher and not because of the rule or the object: that is never
// a refusal.
func isOurs(err error) bool {
	return errors.Is(err, admit.ErrNotReady) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// selects reports whether the selectors of a rule select the request.
func (r *ruleRun) selects(rule *Rule) (bool, error) {
	switch {
	case !hasLabels(r.req.Object, rule.compiled.objects) && !hasLabels(r.req.OldObject, rule.compiled.objects):
		return false, nil
	case rule.compiled.namespaces == nil:
		return true, nil
	case r.req.AboutNamespace():
		return hasLabels(r.req.Subject(), rule.compiled.namespaces), nil
	case r.req.Namespace == "":
		return true, nil
	}
	if err := r.lookUp(); err != nil {
		return false, err
	}
	return rule.compiled.namespaces.Matches(labels.Set(r.review.Namespace.Labels)), nil
}

// ratchet returns which objects of the request the selectors of a rule select that are about labels of the object, which a
// Namespace's namespaceSelector is.
func (r *ruleRun) ratchet(rule *Rule) admit.Ratchet {
	selects := func(object *document.Document) bool {
		return hasLabels(object, rule.compiled.objects) && (!r.req.AboutNamespace() || hasLabels(object, rule.compiled.namespaces))
	}
	return admit.Ratchet{Is: selects(r.req.Object), Was: selects(r.req.OldObject)}
}

// hasLabels reports whether a selector selects an object, which may be absent. Without a selector, all are selected.
func hasLabels(object *document.Document, selector labels.Selector) bool {
	return selector == nil || object != nil && selector.Matches(admit.AsMeta(object).Selectable())
}

// lookUp asks for the namespace of the request, once.
func (r *ruleRun) lookUp() error {
	if r.review.Namespace != nil || r.req.Namespace == "" || r.req.AboutNamespace() {
		return nil
	}
	is, err := r.ask.NamespaceOf(r.req)
	if err != nil {
		return err
	}
	phase := corev1.NamespaceActive
	if is.Deleting {
		phase = corev1.NamespaceTerminating
	}
	r.review.Namespace = &Namespace{Name: r.req.Namespace, Labels: is.Labels, Annotations: is.Annotations, Phase: string(phase)}
	return nil
}
