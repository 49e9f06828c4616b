package webhookmatch

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"usher.dev/usher/internal/resources"
)

// Never reports whether a match condition is false for every request that rules are for, such as `false`, `object.a == 1 && false`, or
// `request.operation == 'UPDATE'` where the rules name CREATE alone: it is evaluated while no more is known of a request than what its
// rule says. Without rules nothing is known. A condition that does not compile is not false.
func Never(c registration.MatchCondition, rules []registration.RuleWithOperations) bool {
	e := expressionOf(c.Expression)
	if e.program == nil {
		return false
	}
	requests := requestsOf(rules)
	if len(requests) == 0 {
		requests = []partial{{unknown: []*cel.AttributePatternType{cel.AttributePattern("request")}}}
	}
	return !slices.ContainsFunc(requests, func(p partial) bool {
		result, err := e.evaluate(map[string]any{"request": p.known, namespaceObject: nil}, p.unknown, p.user, objects, others)
		return err != nil || result != celtypes.False
	})
}

// expression is the expression of a condition, which can be evaluated while not all is known.
type expression struct {
	program cel.Program // nil: it does not compile
	tree    *cel.Ast
}

func expressionOf(text string) expression {
	var options []cel.EnvOption
	for _, name := range []string{"object", "oldObject", "request", "authorizer", "params", namespaceObject, "variables"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv().Extend(options...)
	if err != nil {
		return expression{}
	}
	compiled, issues := env.Compile(text)
	if issues.Err() != nil {
		return expression{}
	}
	program, err := env.Program(compiled, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(celconfig.RuntimeCELCostBudgetMatchConditions))
	if err != nil {
		return expression{}
	}
	return expression{program, compiled}
}

// evaluate returns the result for the variables that are known, which is an unknown if it depends on others; nil if the expression does not compile.
func (e expression) evaluate(known map[string]any, unknown ...[]*cel.AttributePatternType) (ref.Val, error) {
	vars, err := cel.PartialVars(known, slices.Concat(unknown...)...)
	if err != nil || e.program == nil {
		return nil, err
	}
	result, _, err := e.program.Eval(vars)
	return result, err
}

// namespaceObject is the variable of the Namespace. The API server evaluates the match conditions of webhooks and of admission policies while
// it is null, also for objects in namespaces.
const namespaceObject = "namespaceObject"

// The variables besides the request, of which nothing is known.
var (
	objects   = []*cel.AttributePatternType{cel.AttributePattern("object"), cel.AttributePattern("oldObject")}
	others    = []*cel.AttributePatternType{cel.AttributePattern("authorizer"), cel.AttributePattern("params"), cel.AttributePattern("variables")}
	namespace = []*cel.AttributePatternType{cel.AttributePattern(namespaceObject)}
)

// partial is what is known of a request, and what is not.
type partial struct {
	known         map[string]any
	unknown, user []*cel.AttributePatternType // user: who sends it
}

// attribute returns a member of a variable, of which nothing is known.
func attribute(variable string, path ...string) *cel.AttributePatternType {
	pattern := cel.AttributePattern(variable)
	for _, member := range path {
		pattern = pattern.QualString(member)
	}
	return pattern
}

// requestsOf returns what is known of the requests of rules, for each resource and operation.
func requestsOf(rules []registration.RuleWithOperations) (all []partial) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, name := range rule.Resources {
				for _, operation := range rule.Operations {
					all = append(all, requestOf(group, name, operation))
				}
			}
		}
	}
	return all
}

// requestOf returns what is known of a request of a rule, and that it lacks some members. The version is that of any rule, so it is left open.
func requestOf(group, name string, operation registration.OperationType, absent ...string) partial {
	p := partial{known: map[string]any{"resource": map[string]any{}}, user: []*cel.AttributePatternType{attribute("request", "userInfo")}}
	set := func(value string, path ...string) {
		if value == "*" {
			p.unknown = append(p.unknown, attribute("request", path...))
			return
		}
		_ = unstructured.SetNestedField(p.known, value, path...) // no member is both a text and a mapping
	}
	for _, other := range []string{"uid", "requestKind", "requestResource", "requestSubResource", "name", "namespace", "dryRun", "options"} {
		if !slices.Contains(absent, other) {
			set("*", other)
		}
	}
	base, sub, _ := strings.Cut(name, "/")
	set(string(operation), "operation")
	set(group, "resource", "group")
	set("*", "resource", "version")
	set(base, "resource", "resource")
	if sub != "" { // an empty one is absent
		set(sub, "subResource")
	}
	kind := KindOf(group, base)
	if kind == "" || sub != "" { // perhaps another one, such as Scale
		set("*", "kind")
		return p
	}
	set(kind, "kind", "kind")
	set(group, "kind", "group")
	set("*", "kind", "version")
	return p
}

// KindOf returns the kind of a resource of Kubernetes, or "".
func KindOf(group, resource string) string {
	for _, k := range resources.Kinds() {
		if plural, _ := meta.UnsafeGuessKindToResource(k.WithVersion("")); k.Group == group && plural.Resource == resource {
			return k.Kind
		}
	}
	return ""
}
