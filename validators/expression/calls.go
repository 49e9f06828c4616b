package expression

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// overloads are the implementations of functions, by the names of overloads and functions.
type overloads map[string]*functions.Overload

// overloadsOf returns the implementations of all functions of an environment, as programs call them.
func overloadsOf(env *cel.Env) (overloads, error) {
	all := overloads{}
	for _, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			all[b.Operator] = b
		}
	}
	all.linear()
	all[operators.Equals] = &functions.Overload{Binary: types.Equal}
	all[operators.NotEquals] = &functions.Overload{Binary: func(a, b ref.Val) ref.Val { return types.Bool(types.Equal(a, b) != types.True) }}
	return all, nil
}

// find returns the implementation that the library calls.
func (o overloads) find(call interpreter.InterpretableCall) *functions.Overload {
	if of := o[call.OverloadID()]; of != nil {
		return of
	}
	return o[call.Function()]
}

// bounded makes calls of functions, lists and maps, and rounds of loops tell the reader what they are going to take.
func (x *compiled) bounded(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if of, ok := x.loops[node.ID()]; ok {
		return newRound(node, of), nil
	}
	if of, ok := node.(interpreter.InterpretableConstructor); ok {
		return boundedLiteral(of), nil
	}
	of, ok := node.(interpreter.InterpretableCall)
	if !ok || constant[of.Function()] || len(of.Args()) == 0 {
		return node, nil
	}
	c := &call{InterpretableCall: of, args: of.Args(), does: x.overloads.find(of), price: prices[of.Function()]}
	if of.Function() == operators.In && isConstant(c.args[1]) {
		c.args = []interpreter.InterpretableV2{hashed{c.args[0]}, c.args[1]}
	}
	return c, c.usePattern()
}

// call is a call of a function, an interpreter.InterpretableCall, whose work depends on its arguments. What it will take is computed from them first.
type call struct {
	interpreter.InterpretableCall
	args  []interpreter.InterpretableV2
	does  *functions.Overload
	price func(args []ref.Val) price // nil: scanned
	all   *allFinder                 // nil: it is not findAll, or its pattern is not constant
}

func (c *call) Args() []interpreter.InterpretableV2 { return c.args }

// Exec implements interpreter.InterpretableV2, as the library's calls do: of two arguments, the second has a cost also if the first
// fails.
func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	var room [3]ref.Val
	values := room[:0]
	for i, arg := range c.args {
		value := arg.Exec(frame)
		if types.IsUnknownOrError(value) {
			if i == 0 && len(c.args) == 2 {
				c.args[1].Exec(frame)
			}
			return value
		}
		values = append(values, value)
	}
	if reader := readerOf(frame); reader != nil {
		var p price
		if c.all != nil {
			if all, ok := c.all.find(reader, values); ok {
				return all
			}
		}
		if c.price != nil {
			p = c.price(slices.Clone(values))
		} else {
			p = scanned(values)
		}
		if p.isMuch() {
			reader.afford(c.Function(), p)
		}
	}
	return types.LabelErrNode(c.ID(), c.call(values))
}

func (c *call) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// call calls the function.
func (c *call) call(args []ref.Val) ref.Val {
	of, subject := c.does, args[0].Type()
	switch {
	case of == nil || of.OperandTrait != 0 && !subject.HasTrait(of.OperandTrait):
	case len(args) == 1 && of.Unary != nil:
		return of.Unary(args[0])
	case len(args) == 2 && of.Binary != nil:
		return of.Binary(args[0], args[1])
	case of.Function != nil:
		return of.Function(slices.Clone(args)...)
	}
	if subject.HasTrait(traits.ReceiverType) {
		return args[0].(traits.Receiver).Receive(c.Function(), c.OverloadID(), slices.Clone(args[1:]))
	}
	return types.NewErr("no such overload: %s", c.Function())
}

// round is the condition of a loop, which is evaluated before each round. The library's cost tracker has a stack, which
// each round makes longer, and searches all of it for some nodes. So a round takes the list that the loop is over from the
// stack, with everything that the round before it has left, and puts itself there instead. The costs are the same.
type round struct {
	interpreter.InterpretableV2
	function, overload string
	args               []interpreter.InterpretableV2
	over               int64 // the node of the list
}

// roundFunction is the function of a round whose condition is no call. It costs nothing.
const roundFunction = "@round"

func newRound(condition interpreter.InterpretableV2, over int64) *round {
	r := &round{InterpretableV2: condition, function: roundFunction, over: over,
		args: []interpreter.InterpretableV2{interpreter.NewConstValue(over, types.True)}}
	if call, ok := condition.(interpreter.InterpretableCall); ok {
		r.function, r.overload = call.Function(), call.OverloadID()
		r.args = append(r.args, call.Args()...)
	}
	return r
}

func (r *round) ID() int64                           { return r.over }
func (r *round) Function() string                    { return r.function }
func (r *round) OverloadID() string                  { return r.overload }
func (r *round) Args() []interpreter.InterpretableV2 { return r.args }

func (r *round) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if reader := readerOf(frame); reader != nil {
		reader.spend(workOfRound)
	}
	return r.InterpretableV2.Exec(frame)
}

func (r *round) Eval(vars interpreter.Activation) ref.Val { return r.Exec(interpreter.AsFrame(vars)) }

// loopsOf returns the loops in a syntax tree: the node of the list of each, by the node of its condition.
func loopsOf(tree *ast.AST) map[int64]int64 {
	loops := map[int64]int64{}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		over := e.AsComprehension().IterRange()
		if over.Kind() != ast.ListKind || over.AsList().Size() > 0 { // an empty list gives a value a name
			loops[e.AsComprehension().LoopCondition().ID()] = over.ID()
		}
	}))
	return loops
}

// readerName is the name by which nodes find the reader. No expression can have it.
const readerName = "@reader"

// readerOf returns the reader of an evaluation; nil while a program is planned.
func readerOf(frame *interpreter.ExecutionFrame) *reader {
	value, _ := frame.ResolveName(readerName)
	reader, _ := value.(*reader)
	return reader
}
