package expression

import (
	"bytes"
	"context"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"usher.dev/usher/admit/document"
)

// reader reads the documents of one review. It makes each value once, when an expression asks for it first, because
// expressions ask again and again in loops. It also counts what the evaluation takes. Values and reader must not be used
// after the documents are released.
type reader struct {
	ctx   context.Context
	turns turns
	turn  bool // it has one
	spent int  // about how many nanoseconds the evaluations of the review have taken
	next  int  // when to look at the context again

	work, made int // by calls of functions for the rule: nanoseconds, and bytes of results
}

// begin begins the evaluation of a rule.
func (r *reader) begin(ctx context.Context, turns turns) {
	r.ctx, r.turns, r.work, r.made = ctx, turns, 0, 0
}

// step counts a value that is read: a function of the library that compares two long lists is not interrupted otherwise.
func (r *reader) step() { r.spend(workOfRead) }

// spend counts work that is going to be done. The evaluation ends when its context has ended, and a long one waits for its turn.
func (r *reader) spend(nanoseconds int) {
	if r.spent += nanoseconds; r.spent < r.next {
		return
	}
	r.next = r.spent + workPerCheck
	ended := r.ctx.Err() != nil
	if !ended && !r.turn && r.turns != nil && r.spent >= workPerTurn {
		r.turn = r.turns.take(r.ctx)
		ended = !r.turn
	}
	if ended {
		panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "the evaluation has ended"})
	}
}

// rest gives the turn back.
func (r *reader) rest() {
	if r.turn {
		r.turns.giveBack()
		r.turn = false
	}
}

// Nanoseconds.
const (
	workOfRead   = 50
	workPerCheck = 20_000    // between two looks at the context
	workPerTurn  = 2_000_000 // before an evaluation needs a turn
)

// value returns a part of a document as the value that an expression of the API server sees: whole numbers as int,
// others as double, absent as null. Objects and lists are read where they lie in the document, member by member, and
// only as far as the expression goes.
func (r *reader) value(of document.Raw) ref.Val {
	switch of.Kind() {
	case document.Object:
		return &object{raw: of, reader: r}
	case document.Array:
		return &list{raw: of, reader: r, rest: of.Children()}
	case document.Text:
		r.spend(4 * len(of.Bytes()))
		return types.String(of.Text())
	case document.True:
		return types.True
	case document.False:
		return types.False
	case document.Number:
		return number(of.Bytes())
	}
	return types.NullValue
}

// number returns a number as the API server decodes it: an int if it is written as one and fits.
func number(text []byte) ref.Val {
	if !bytes.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return types.Int(n)
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return types.NewErr("the number %.40s is too large", text)
	}
	return types.Double(f)
}
