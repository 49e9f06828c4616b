package expression

import (
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// What a list or map in an expression takes for each element, in nanoseconds.
const (
	workOfListed = 20
	workOfMapped = 100
)

// bytesHashed is the number of bytes of a key that are hashed in a nanosecond.
const bytesHashed = 4

// madeLiteral is a list or map in an expression that is made anew at each evaluation.
type madeLiteral struct {
	interpreter.InterpretableConstructor
	work int
}

// boundedLiteral makes a list or map tell the reader what it is going to take, unless that is little, or it is constant.
func boundedLiteral(node interpreter.InterpretableConstructor) interpreter.InterpretableV2 {
	parts := node.InitVals()
	l := &madeLiteral{node, workOfListed * len(parts)}
	if node.Type() != types.ListType {
		l.work = workOfMapped * len(parts)
	} else if l.work <= littleWork {
		return node
	}
	if !slices.ContainsFunc(parts, func(part interpreter.InterpretableV2) bool { return !isConstant(part) }) {
		return node
	}
	return l
}

func isConstant(node interpreter.InterpretableV2) bool {
	_, ok := node.(interpreter.InterpretableConst)
	return ok
}

func (l *madeLiteral) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	reader := readerOf(frame)
	if reader == nil {
		return l.InterpretableConstructor.Exec(frame)
	}
	reader.spend(l.work)
	value := l.InterpretableConstructor.Exec(frame)
	if all, ok := value.(traits.Mapper); ok {
		for keys := all.Iterator(); keys.HasNext() == types.True; {
			if key, ok := keys.Next().(types.String); ok {
				reader.spend(len(key) / bytesHashed)
			}
		}
	}
	return value
}

func (l *madeLiteral) Eval(vars interpreter.Activation) ref.Val {
	return l.Exec(interpreter.AsFrame(vars))
}

// hashed is a value that is looked up among constants, which is no call for the interpreter.
type hashed struct{ interpreter.InterpretableV2 }

func (h hashed) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := h.InterpretableV2.Exec(frame)
	if text, ok := value.(types.String); ok && len(text)/bytesHashed > littleWork {
		if reader := readerOf(frame); reader != nil {
			reader.spend(len(text) / bytesHashed)
		}
	}
	return value
}

func (h hashed) Eval(vars interpreter.Activation) ref.Val { return h.Exec(interpreter.AsFrame(vars)) }
