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

// Contradiction returns what all conditions together ask of one value and exclude, such as two names of one user, in each way in which they could
// be true; "" if nothing was found. It compares the parts that must all be true: equality with literals, its negation, and any part with its own
// negation.
func Contradiction(conditions []registration.MatchCondition) string {
	const most = 256 // ways
	var contradicted []string
	possible := []way{nil}
	for _, c := range conditions {
		e := expressionOf(c.Expression)
		if e.tree == nil {
			return ""
		}
		var left []way
		for _, w := range product(possible, waysOf(e.tree.NativeRep().Expr(), false)) {
			if about := w.contradiction(); about != "" {
				contradicted = append(contradicted, about)
			} else {
				left = append(left, w)
			}
		}
		if possible = left; len(possible) == 0 || len(possible) > most {
			break
		}
	}
	if len(possible) > 0 {
		return ""
	}
	slices.Sort(contradicted)
	return strings.Join(slices.Compact(contradicted), ", and about ")
}

// part is an expression that must be true, or false.
type part struct {
	ast.Expr
	negated bool
}

// way is one of the ways in which an expression can be true: parts all of which are as they must be.
type way []part

// contradiction returns the value of which the parts ask what excludes each other, or "".
func (w way) contradiction() string {
	asked := map[string]values{}
	for _, p := range w {
		about, is := valuesOf(p)
		if about == "" {
			continue
		}
		merged, contradicts := asked[about].and(is)
		if asked[about] = merged; contradicts {
			return about
		}
	}
	return ""
}

// waysOf returns the ways in which an expression can be true, or false if it is negated.
func waysOf(e ast.Expr, negated bool) []way {
	if e.Kind() == ast.CallKind {
		args := e.AsCall().Args()
		switch name := e.AsCall().FunctionName(); {
		case name == operators.LogicalNot:
			return waysOf(args[0], !negated)
		case name == operators.LogicalAnd && !negated, name == operators.LogicalOr && negated:
			return product(waysOf(args[0], negated), waysOf(args[1], negated))
		case name == operators.LogicalAnd, name == operators.LogicalOr:
			return slices.Concat(waysOf(args[0], negated), waysOf(args[1], negated))
		}
	}
	return []way{{{e, negated}}}
}

// product returns the ways in which two expressions can both be true. If they are too many, what the second one asks is left open.
func product(a, b []way) (both []way) {
	const most = 4096
	if len(a)*len(b) > most {
		return a
	}
	for _, one := range a {
		for _, other := range b {
			both = append(both, slices.Concat(one, other))
		}
	}
	return both
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

// valuesOf returns a value that a part of a condition is about, in CEL, and the values that it may have. What is no comparison with literals
// is about itself, and is true.
func valuesOf(p part) (about string, is values) {
	e, negated := p.Expr, p.negated
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
