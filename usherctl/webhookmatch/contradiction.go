package webhookmatch

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	registration "k8s.io/api/admissionregistration/v1"
)

// Contradiction returns what all conditions together ask of one value and exclude, such as two names of one user; "" if nothing was found. It
// compares the parts that must all be true: equality with literals, its negation, and any part with its own negation.
func Contradiction(conditions []registration.MatchCondition) string {
	asked := map[string]values{}
	for _, c := range conditions {
		e := expressionOf(c.Expression)
		if e.tree == nil {
			return ""
		}
		for _, part := range conjuncts(e.tree.NativeRep().Expr()) {
			about, is := valuesOf(part)
			if about == "" {
				continue
			}
			merged, contradicts := asked[about].and(is)
			if asked[about] = merged; contradicts {
				return about
			}
		}
	}
	return ""
}

// values are those that a text may have, as some parts of conditions ask.
type values struct {
	only   []string // nil: any
	others []string // that it may not have
}

// and returns the values that both allow, and reports whether there are none.
func (v values) and(w values) (values, bool) {
	both := values{only: v.only, others: slices.Concat(v.others, w.others)}
	if both.only == nil {
		both.only = slices.Clone(w.only)
	} else if w.only != nil {
		both.only = slices.DeleteFunc(slices.Clone(v.only), func(s string) bool { return !slices.Contains(w.only, s) })
	}
	if both.only == nil {
		return both, false
	}
	both.only = slices.DeleteFunc(both.only, func(s string) bool { return slices.Contains(both.others, s) })
	return both, len(both.only) == 0
}

// conjuncts returns the parts of an expression that must all be true.
func conjuncts(e ast.Expr) []ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		return slices.Concat(conjuncts(e.AsCall().Args()[0]), conjuncts(e.AsCall().Args()[1]))
	}
	return []ast.Expr{e}
}

// valuesOf returns a value that a part of a condition is about, in CEL, and the values that it may have. What is no comparison with literals
// is about itself, and is true.
func valuesOf(e ast.Expr) (about string, is values) {
	negated := false
	for e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalNot {
		e, negated = e.AsCall().Args()[0], !negated
	}
	about, all := celOf(e), []string{"true"}
	if e.Kind() == ast.CallKind && len(e.AsCall().Args()) == 2 {
		call := e.AsCall()
		left, right := call.Args()[0], call.Args()[1]
		if call.FunctionName() != operators.In && len(literals(left)) == 1 {
			left, right = right, left
		}
		found := literals(right)
		switch name := call.FunctionName(); {
		case len(found) == 0:
		case name == operators.Equals && right.Kind() == ast.LiteralKind, name == operators.In && right.Kind() == ast.ListKind:
			about, all = celOf(left), found
		case name == operators.NotEquals && right.Kind() == ast.LiteralKind:
			about, all, negated = celOf(left), found, !negated
		}
	}
	if negated {
		return about, values{others: all}
	}
	return about, values{only: all}
}

// literals returns a text or a boolean, or those of a list of nothing else, in CEL. Numbers of several types can be equal.
func literals(e ast.Expr) (all []string) {
	elements := []ast.Expr{e}
	if e.Kind() == ast.ListKind {
		elements = e.AsList().Elements()
	}
	for _, one := range elements {
		if one.Kind() != ast.LiteralKind || one.AsLiteral().Type() != types.StringType && one.AsLiteral().Type() != types.BoolType {
			return nil
		}
		all = append(all, celOf(one))
	}
	return all
}

// celOf returns an expression in CEL.
func celOf(e ast.Expr) string {
	text, err := cel.ExprToString(e, ast.NewSourceInfo(nil))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(text), " ")
}
