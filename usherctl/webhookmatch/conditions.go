package webhookmatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Authorize reports whether a user may do something. Without attributes of a resource, they are about a path.
type Authorize func(context.Context, authorizer.Attributes) (allowed bool, reason string, err error)

// ErrUnknown is why a condition has no result that is known.
var ErrUnknown = errors.New("what it asks of the authorizer is known only with --cluster=api")

// asking is an authorizer that notes whether it was asked what is not known.
type asking struct {
	answer Authorize
	failed error
}

// Authorize answers for the authorizer of the API server.
func (a *asking) Authorize(ctx context.Context, what authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.answer == nil {
		a.failed = ErrUnknown
		return authorizer.DecisionNoOpinion, "", a.failed
	}
	allowed, reason, err := a.answer(ctx, what)
	if err != nil {
		a.failed = err
	}
	if allowed {
		return authorizer.DecisionAllow, reason, err
	}
	return authorizer.DecisionNoOpinion, reason, err
}

// compiler returns the API server's compiler of match conditions. Its environment is made when it is needed first.
func (m *Matcher) compiler() plugin.ConditionCompiler {
	m.once.Do(func() {
		m.conditions = plugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	})
	return m.conditions
}

// Compile returns why a match condition does not compile, or nil. The API server then refuses its configuration; a condition that
// was stored before fails for every request.
func (m *Matcher) Compile(c registration.MatchCondition) error {
	condition := matchconditions.MatchCondition(c)
	return errors.Join(m.compiler().CompileCondition([]plugin.ExpressionAccessor{&condition},
		plugin.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions).CompilationErrors()...)
}

// result returns the result of match conditions, with the error of those that have none.
func (m *Matcher) result(ctx context.Context, h Hook, conditions []registration.MatchCondition, attr *admission.VersionedAttributes,
	by *asking) matchconditions.MatchResult {
	compiled, found := m.compiled.Load(fmt.Sprint(conditions))
	if !found {
		h.MatchConditions, h.FailurePolicy = conditions, new(registration.Fail)
		compiled, _ = m.compiled.LoadOrStore(fmt.Sprint(conditions), h.accessor().GetCompiledMatcher(m.compiler()))
	}
	return compiled.(matchconditions.Matcher).Match(ctx, attr, nil, by) //nolint:forcetypeassert // there is nothing else
}

// meets decides by match conditions, each alone, and by their budget together. A false condition wins over an unknown one, which wins over a
// failing one.
func (m *Matcher) meets(ctx context.Context, r Request, as Equivalent, h Hook, attr *admission.VersionedAttributes) (v Verdict) {
	var unknown, failing []Verdict
	for _, c := range h.MatchConditions {
		by := &asking{answer: r.Authorize}
		result := m.result(ctx, h, []registration.MatchCondition{c}, attr, by)
		why, text := r.doubt(c.Expression, as), c.Name+": "+oneLine(c.Expression)
		if by.failed != nil {
			why = by.failed.Error()
		}
		switch {
		case why != "" && result.Error != nil && by.failed == nil:
			why = "has no result: " + reasonOf(result.Error) + "; " + why
			fallthrough
		case why != "":
			next := skip(Unknown, "matchConditions: %s: %s", text, why)
			next.Converts, next.mayRefuse = by.failed == nil && !as.SameFields, by.failed == nil && *h.FailurePolicy == registration.Fail
			unknown = append(unknown, next)
		case result.Error != nil:
			failing = append(failing, h.fails(c, result.Error))
		case !result.Matches:
			return skip(MatchConditions, "%s is false: %s", c.Name, oneLine(c.Expression))
		}
	}
	all := slices.Concat(unknown, failing)
	if len(all) > 0 {
		v = all[0]
		v.mayRefuse = len(unknown) > 0 && slices.ContainsFunc(all, func(one Verdict) bool { return one.mayRefuse || one.Refuses })
	} else if len(h.MatchConditions) > 1 {
		if spent := m.result(ctx, h, h.MatchConditions, attr, &asking{answer: r.Authorize}).Error; spent != nil {
			v = h.fails(h.MatchConditions[len(h.MatchConditions)-1], spent)
		}
	}
	return v
}

// fails is the verdict for a condition without a result.
func (h Hook) fails(m registration.MatchCondition, err error) Verdict {
	means := "failurePolicy is Ignore, so the webhook is skipped"
	if *h.FailurePolicy == registration.Fail {
		means = "failurePolicy is Fail, so the API server refuses the request"
	}
	v := skip(MatchConditions, "%s has no result: %s: %s; %s", m.Name, oneLine(m.Expression), reasonOf(err), means)
	v.Refuses = *h.FailurePolicy == registration.Fail
	return v
}

// reads matches where an expression reads the object, with what it reads if that is the same in all versions.
var reads = regexp.MustCompile(`\b(object|oldObject)\b(\.(metadata|kind|apiVersion)\b|\s*[!=]=\s*null\b)?`)

// readsFields reports whether an expression reads more than metadata of an object that is there.
func (r Request) readsFields(expression string) bool {
	return slices.ContainsFunc(reads.FindAllStringSubmatch(expression, -1), func(m []string) bool {
		raw := r.Object.Raw
		if m[1] == "oldObject" {
			raw = r.OldObject.Raw
		}
		return m[2] == "" && !isAbsent(raw)
	})
}

// isAbsent reports whether there is no object, such as the new one of a deletion.
func isAbsent(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// doubt returns why the API server may see another object than is known here, if the condition reads that part of it.
func (r Request) doubt(expression string, as Equivalent) string {
	switch {
	case !r.readsFields(expression):
		return ""
	case !as.SameFields:
		return fmt.Sprintf("the API server converts the object to %s before, which is not done here", as.Kind.GroupVersion())
	case r.Bare:
		return fmt.Sprintf("a manifest does not say which %s is sent; examine its AdmissionReview", r.kind().Kind)
	}
	return ""
}

// reasonOf returns the message of an error of CEL without the expression, which is shown already.
func reasonOf(err error) string {
	text := err.Error()
	if _, after, found := strings.Cut(text, "' resulted in error: "); found {
		text = after
	}
	return oneLine(text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
