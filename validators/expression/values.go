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
// expressions ask again and again in loops. Values and reader must not be used after the documents are released.
type reader struct {
	ctx   context.Context
	reads uint
	turns turns
	turn  bool // it has one
}

// step counts a step of reading. The evaluation ends when its context has ended: a function of the library that
// compares two long lists is not interrupted otherwise. A long evaluation waits for its turn.
func (r *reader) step() {
	if r.reads++; r.reads%readsPerCheck != 0 {
		return
	}
	ended := r.ctx.Err() != nil
	if !ended && !r.turn && r.turns != nil && r.reads >= readsPerTurn {
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

const (
	readsPerCheck = 256      // values that are read between two looks at the context: some ten microseconds
	readsPerTurn  = 8 * 1024 // values that are read before an evaluation needs a turn: some milliseconds
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
