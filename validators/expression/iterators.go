package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"usher.dev/usher/admit/document"
)

// keys iterates over the keys of an object.
type keys struct {
	iterator
	reader *reader
	rest   document.Children
}

// HasNext implements traits.Iterator.
func (k *keys) HasNext() ref.Val { return types.Bool(k.rest.More()) }

// Next implements traits.Iterator.
func (k *keys) Next() ref.Val {
	k.reader.step()
	if !k.rest.More() {
		return nil
	}
	next := k.rest.Next()
	return types.String(next.Key())
}

// items iterates over the elements of a list.
type items struct {
	iterator
	list *list
	next int
}

// HasNext implements traits.Iterator.
func (e *items) HasNext() ref.Val { return types.Bool(e.next < e.list.raw.Size()) }

// Next implements traits.Iterator.
func (e *items) Next() ref.Val {
	if e.next >= e.list.raw.Size() {
		return nil
	}
	e.next++
	return e.list.at(e.next - 1)
}

// iterator has the methods of values that make no sense for an iterator, which expressions cannot get hold of.
type iterator struct{}

// Type implements ref.Val.
func (iterator) Type() ref.Type { return types.IteratorType }

// Value implements ref.Val.
func (iterator) Value() any { return nil }

// Equal implements ref.Val.
func (iterator) Equal(ref.Val) ref.Val { return types.NewErr("no such overload") }

// ConvertToType implements ref.Val.
func (iterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

// ConvertToNative implements ref.Val.
func (iterator) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("an iterator has no native value")
}
