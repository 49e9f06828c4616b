package expression

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/lazy"

	"usher.dev/usher/admit/document"
)

// Review holds the parts of a request that expressions see.
type Review struct {
	Object, OldObject document.Raw // absent: null
	Request           document.Raw // the request of the AdmissionReview
	Namespace         *Namespace   // nil for an object without a namespace, or if no expression reads it

	reader                     reader
	object, oldObject, request root
}

// root is the value of a document, which all rules that judge a review share.
type root struct {
	of    document.Raw
	value ref.Val // nil: not needed yet
}

// value returns the value of a document.
func (r *Review) value(root *root, of document.Raw) ref.Val {
	if root.value == nil || root.of != of {
		root.of, root.value = of, r.reader.value(of)
	}
	return root.value
}

// Namespace holds the fields of the object's namespace that expressions see.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
	Phase               string
}

// Verdict is the result of a rule for a request.
type Verdict struct {
	// Unmet is the name of the match condition that is false; the rule then is not for the request.
	Unmet string
	// Violations are the validations that are false.
	Violations []Violation
	// Failures are the expressions without a result.
	Failures []error
}

// Violation is a validation that is false.
type Violation struct {
	Message string
	Reason  string // Invalid, Forbidden, Unauthorized or TooLarge
	// Field is the field in violation, and Value its number or text.
	Field *field.Path
	Value any
	// Unchanged reports that the stored object has the same in all parts that the expression and the match conditions
	// read, and so violates the validation, too. It is false if the expression does not judge the object alone, see
	// reads.kept.
	Unchanged bool
}

// Evaluate evaluates a rule: its match conditions, and if all of them are true, its validations. It ends when the
// context does. What it has read of the review is kept there for the next rule.
func (p *Program) Evaluate(ctx context.Context, review *Review) (v Verdict) {
	review.reader.begin(ctx, p.turns)
	defer review.reader.rest()
	if v.Unmet, v.Failures = p.unmet(ctx, review); v.Unmet != "" || len(v.Failures) > 0 {
		return v
	}
	e := p.evaluation(ctx, review, celconfig.RuntimeCELCostBudget)
	for _, x := range p.validations {
		result, err := e.run(x.compiled)
		if err != nil {
			v.Failures = append(v.Failures, err)
			if errors.Is(err, errBudget) || ctx.Err() != nil {
				break
			}
			continue
		}
		if result == types.True {
			continue
		}
		said, err := e.message(x)
		if err != nil {
			v.Failures = append(v.Failures, err)
			break
		}
		v.Violations = append(v.Violations, x.violation(review, said))
	}
	return v
}

func (x validation) violation(review *Review, said string) Violation {
	v := Violation{Message: said, Reason: cmp.Or(x.reason, Invalid), Field: x.at.field(), Value: field.OmitValueType{}}
	if len(x.at) > 0 {
		v.Value = x.at.value(review.Object)
	}
	v.Unchanged = x.isUnchanged(review)
	return v
}

// isUnchanged is Violation.Unchanged.
func (x validation) isUnchanged(review *Review) bool {
	return review.Object.Exists() && review.OldObject.Exists() && len(x.kept) > 0 &&
		!slices.ContainsFunc(x.kept, func(path []string) bool { return !isSame(review.Object, review.OldObject, path) })
}

// evaluation is the evaluation of expressions that share the values of variables and a budget. It is their cel.Activation.
type evaluation struct {
	ctx     context.Context
	program *Program
	review  *Review
	budget  int64

	namespace, variables ref.Val // nil: not needed yet
}

func (p *Program) evaluation(ctx context.Context, review *Review, budget int64) *evaluation {
	return &evaluation{ctx: ctx, program: p, review: review, budget: budget}
}

// unmet returns the first match condition that is false. A condition that fails counts only if none is.
func (p *Program) unmet(ctx context.Context, review *Review) (name string, failures []error) {
	if len(p.conditions) == 0 {
		return "", nil
	}
	e := p.evaluation(ctx, review, celconfig.RuntimeCELCostBudgetMatchConditions)
	for _, condition := range p.conditions {
		result, err := e.run(condition)
		if err != nil {
			failures = append(failures, fmt.Errorf("match condition %s: %w", condition.name, err))
			if errors.Is(err, errBudget) {
				break
			}
		} else if result == types.False {
			return condition.name, nil
		}
	}
	return "", failures
}

// run evaluates an expression and charges its cost, with its variables' cost, to the budget. It ends with the context of
// the review, see reader.spend.
func (e *evaluation) run(x *compiled) (ref.Val, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, fmt.Errorf("evaluating %q: %w", x.text, err)
	}
	value, details, err := x.program.Eval(e)
	if err != nil && e.ctx.Err() != nil {
		return nil, fmt.Errorf("evaluating %q: %w", x.text, e.ctx.Err())
	}
	if details == nil || details.ActualCost() == nil {
		return nil, fmt.Errorf("evaluating %q: its cost is not known: %w", x.text, errBudget)
	}
	if !e.pay(*details.ActualCost()) {
		err = errBudget
	}
	if err != nil {
		return nil, fmt.Errorf("evaluating %q: %w", x.text, x.placed(err))
	}
	return value, nil
}

// pay takes a cost from the budget, and reports whether there was enough. An overdrawn budget stays so.
func (e *evaluation) pay(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > e.budget {
		e.budget = -1
		return false
	}
	e.budget -= int64(cost)
	return true
}

// message returns what the user reads about a violation. An error says that the budget is spent.
func (e *evaluation) message(v validation) (string, error) {
	if v.message == nil {
		return v.said, nil
	}
	value, err := e.run(v.message)
	if err != nil {
		if errors.Is(err, errBudget) || e.ctx.Err() != nil {
			return "", err
		}
		return v.said, nil
	}
	composed, _ := value.Value().(string)
	composed = strings.TrimSpace(composed)
	if composed == "" || len(composed) > maxMessage || strings.Contains(composed, "\n") {
		return v.said, nil
	}
	return composed, nil
}

func (e *evaluation) Parent() cel.Activation { return nil }

func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case objectName:
		return e.review.value(&e.review.object, e.review.Object), true
	case oldObjectName:
		return e.review.value(&e.review.oldObject, e.review.OldObject), true
	case requestName:
		return e.review.value(&e.review.request, e.review.Request), true
	case namespaceName:
		return once(&e.namespace, e.review.Namespace.value), true
	case variablesName:
		return once(&e.variables, e.lazyVariables), true
	case readerName:
		return &e.review.reader, true
	}
	return nil, false
}

// once returns a value that is made when it is needed first.
func once(value *ref.Val, of func() ref.Val) ref.Val {
	if *value == nil {
		*value = of()
	}
	return *value
}

// lazyVariables returns the variables, each of which is evaluated when it is needed first.
func (e *evaluation) lazyVariables() ref.Val {
	all := lazy.NewMapValue(e.program.variablesType)
	for _, x := range e.program.variables {
		all.Append(x.name, func(*lazy.MapValue) ref.Val {
			value, err := e.run(x)
			if err != nil {
				return types.WrapErr(fmt.Errorf("variable %s: %w", x.name, err))
			}
			return value
		})
	}
	return all
}

// value returns a Namespace as an expression sees it: what is empty is missing.
func (n *Namespace) value() ref.Val {
	if n == nil {
		return types.NullValue
	}
	metadata := map[string]any{"name": n.Name}
	if len(n.Labels) > 0 {
		metadata["labels"] = n.Labels
	}
	if len(n.Annotations) > 0 {
		metadata["annotations"] = n.Annotations
	}
	all := map[string]any{"metadata": metadata}
	if n.Phase != "" {
		all["status"] = map[string]any{"phase": n.Phase}
	}
	return types.DefaultTypeAdapter.NativeToValue(all)
}
