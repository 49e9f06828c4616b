package webhookmatch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// condition adapts a match condition to the compiler.
type condition registration.MatchCondition

func (c condition) GetExpression() string    { return c.Expression }
func (c condition) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

var mayAsk = plugin.OptionalVariableDeclarations{HasAuthorizer: true}

// compile compiles a match condition as the API server does. The environment is made when it is needed first.
func (m *Matcher) compile(c registration.MatchCondition) plugin.ConditionEvaluator {
	m.once.Do(func() {
		m.compiler = plugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	})
	return m.compiler.CompileCondition([]plugin.ExpressionAccessor{condition(c)}, mayAsk, environment.StoredExpressions)
}

// Compile returns why a match condition does not compile, or nil. The API server then refuses its configuration; a condition that
// was stored before fails for every request.
func (m *Matcher) Compile(c registration.MatchCondition) error {
	return errors.Join(m.compile(c).CompilationErrors()...)
}

// meets decides by match conditions. A false condition wins over a failing one.
func (m *Matcher) meets(ctx context.Context, r Request, as Equivalent, h Hook) (worst Verdict) {
	if len(h.MatchConditions) == 0 {
		return Verdict{}
	}
	attributes, err := r.attributes(as)
	if err != nil {
		return skip(Unknown, "matchConditions: the object cannot be read: %v", err)
	}
	budget := int64(celconfig.RuntimeCELCostBudgetMatchConditions)
	resource, kind := metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(as.Kind)
	request := plugin.CreateAdmissionRequest(attributes.Attributes, resource, kind)
	for _, c := range h.MatchConditions {
		asked := &asking{answer: r.Authorize}
		result, left, err := m.compile(c).ForInput(ctx, attributes, request, plugin.OptionalVariableBindings{Authorizer: asked}, nil, budget)
		if err != nil { // the budget is spent
			return h.fails(c, err)
		}
		budget = left
		worst = worse(worst, r.judge(h, c, as, result[0], asked.failed))
	}
	return worst
}

// worse returns the verdict that counts of two: first of a false condition, then of an unknown, then of a failing one.
func worse(a, b Verdict) Verdict {
	rank := func(v Verdict) int {
		switch {
		case !v.decided():
			return 0
		case v.Filter == Unknown:
			return 2
		case v.failed:
			return 1
		}
		return 3
	}
	if rank(b) > rank(a) {
		a, b = b, a
	}
	if a.Filter == Unknown {
		a.mayRefuse = a.mayRefuse || b.mayRefuse || b.Refuses
	}
	return a
}

// judge returns what the result of one condition means.
func (r Request) judge(h Hook, m registration.MatchCondition, as Equivalent, result plugin.EvaluationResult, unanswered error) (v Verdict) {
	defer func() {
		v.Converts = v.Filter == Unknown && unanswered == nil && !as.SameFields
		v.mayRefuse = v.Filter == Unknown && unanswered == nil && h.failurePolicy() == registration.Fail
	}()
	switch doubt := r.doubt(m.Expression, as); {
	case unanswered != nil:
		return skip(Unknown, "matchConditions: %s: %s: %v", m.Name, oneLine(m.Expression), unanswered)
	case result.Error != nil && doubt != "":
		return skip(Unknown, "matchConditions: %s: %s: has no result: %s; %s", m.Name, oneLine(m.Expression), reasonOf(result.Error), doubt)
	case result.Error != nil:
		return h.fails(m, result.Error)
	case doubt != "":
		return skip(Unknown, "matchConditions: %s: %s: %s", m.Name, oneLine(m.Expression), doubt)
	case result.EvalResult == celtypes.False:
		return skip(MatchConditions, "%s is false: %s", m.Name, oneLine(m.Expression))
	}
	return Verdict{}
}

// fails is the verdict for a condition without a result.
func (h Hook) fails(m registration.MatchCondition, err error) Verdict {
	means := "failurePolicy is Ignore, so the webhook is skipped"
	if h.failurePolicy() == registration.Fail {
		means = "failurePolicy is Fail, so the API server refuses the request"
	}
	v := skip(MatchConditions, "%s has no result: %s: %s; %s", m.Name, oneLine(m.Expression), reasonOf(err), means)
	v.failed, v.Refuses = true, h.failurePolicy() == registration.Fail
	return v
}

// object matches where an expression reads the object, with what it reads if that is the same in all versions.
var object = regexp.MustCompile(`\b(object|oldObject)\b(\.(metadata|kind|apiVersion)\b|\s*[!=]=\s*null\b)?`)

// readsFields reports whether an expression reads more than metadata of an object that is there.
func (r Request) readsFields(expression string) bool {
	return slices.ContainsFunc(object.FindAllStringSubmatch(expression, -1), func(m []string) bool {
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
