package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"usher.dev/usher/admit/document"
)

// keys iterates over the keys of an object, as a traits.Iterator.
type keys struct {
	iterator
	reader *reader
	rest   document.Children
}

func (k *keys) HasNext() ref.Val { return types.Bool(k.rest.More()) }

func (k *keys) Next() ref.Val {
	k.reader.step()
	if !k.rest.More() {
		return nil
	}
	next := k.rest.Next()
	return types.String(next.Key())
}

// items iterates over the elements of a list, as a traits.Iterator.
type items struct {
	iterator
	list *list
	next int
}

func (e *items) HasNext() ref.Val { return types.Bool(e.next < e.list.raw.Size()) }

func (e *items) Next() ref.Val {
	if e.next >= e.list.raw.Size() {
		return nil
	}
	e.next++
	return e.list.at(e.next - 1)
}

// iterator has the methods of values that make no sense for an iterator, which expressions cannot get hold of.
type iterator struct{}

func (iterator) Type() ref.Type                 { return types.IteratorType }
func (iterator) Value() any                     { return nil }
func (iterator) Equal(ref.Val) ref.Val          { return types.NewErr("no such overload") }
func (iterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

func (iterator) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("an iterator has no native value")
}
