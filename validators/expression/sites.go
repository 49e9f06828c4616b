package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// site is a call of a function in an expression.
type site struct {
	id           int64 // in the syntax tree
	function     string
	line, column int
}

func (s site) String() string {
	return fmt.Sprintf("line %d column %d: %s", s.line, s.column, s.function)
}

// sitesOf returns the calls of functions in a syntax tree.
func sitesOf(tree *ast.AST) (all []site) {
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		name := e.AsCall().FunctionName()
		if name == operators.Conditional {
			name = "?:"
		} else if shown, ok := operators.FindReverse(name); ok && shown != "" {
			name = shown
		}
		at := tree.SourceInfo().GetStartLocation(e.ID())
		all = append(all, site{e.ID(), name, at.Line(), at.Column() + 1})
	}))
	return all
}

// noOverload is the beginning of the library's error for a function that does not take a value of a type.
const noOverload = "no such overload"

// placed says where in the expression a function got a value that it does not take.
func (x *compiled) placed(err error) error {
	failed, ok := errors.AsType[*types.Err](err)
	if !ok || failed == types.NoSuchOverloadErr() || !strings.HasPrefix(failed.Error(), noOverload) {
		return err
	}
	for _, s := range x.sites {
		if s.id != failed.NodeID() {
			continue
		}
		if isOr(s.function) {
			return fmt.Errorf("%s: %w: the value is not optional; write object.?a.orValue(b), or has(object.a) ? object.a : b", s, err)
		}
		return fmt.Errorf("%s: %w: it does not take a value of this type", s, err)
	}
	return err
}

// isOr reports whether a function chooses between optional values.
func isOr(function string) bool { return function == "or" || function == "orValue" }

// locate makes the errors of functions have their place: the library returns one and the same error for many of them,
// which keeps the first place that it is given.
func (x *compiled) locate(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := node.(type) {
	case interpreter.InterpretableCall:
		return locatedCall{node}, nil
	case interpreter.InterpretableAttribute: // of what is selected from a call that has its place; the planner demands an attribute
		return node, nil
	}
	for _, s := range x.sites {
		if s.id == node.ID() && isOr(s.function) { // which are no calls for the interpreter
			return located{node}, nil
		}
	}
	return node, nil
}

// withPlace returns a value, or if it is the error that has no place of its own, one that has.
func withPlace(value ref.Val, id int64) ref.Val {
	if value == types.NoSuchOverloadErr() {
		return types.NewErrWithNodeID(id, noOverload)
	}
	return value
}

// locatedCall is a call whose error has a place.
type locatedCall struct{ interpreter.InterpretableCall }

func (l locatedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return withPlace(l.InterpretableCall.Exec(frame), l.ID())
}

func (l locatedCall) Eval(vars interpreter.Activation) ref.Val {
	return l.Exec(interpreter.AsFrame(vars))
}

// located is a node of a program whose error has a place.
type located struct{ interpreter.InterpretableV2 }

func (l located) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return withPlace(l.InterpretableV2.Exec(frame), l.ID())
}

func (l located) Eval(vars interpreter.Activation) ref.Val { return l.Exec(interpreter.AsFrame(vars)) }
