package expression

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"usher.dev/usher/admit/document"
)

// list is a JSON array as a list of CEL, a traits.Lister.
type list struct {
	raw      document.Raw
	reader   *reader
	elements []item            // those before rest
	rest     document.Children // the elements that were not needed yet
	skipped  int               // elements that were passed to find others
	all      traits.Lister     // nil: not needed yet
}

type item struct {
	raw   document.Raw
	value ref.Val // nil: not needed yet
}

// at returns an element. One far behind those that were read is looked for, until that was done too often; any other is
// found in constant time.
func (l *list) at(i int) ref.Val {
	l.reader.step()
	if far := i - len(l.elements); far > maxFirstElements && l.skipped <= l.raw.Size() {
		l.skipped += far
		rest := l.rest
		for range far {
			rest.Next()
		}
		return l.reader.value(rest.Next())
	}
	for len(l.elements) <= i {
		if l.elements == nil {
			l.elements = make([]item, 0, min(l.raw.Size(), maxFirstElements))
		}
		l.elements = append(l.elements, item{raw: l.rest.Next()})
	}
	e := &l.elements[i]
	if e.value == nil {
		e.value = l.reader.value(e.raw)
	}
	return e.value
}

// maxFirstElements is the room for elements that is made at first, since few expressions read all of a long list.
const maxFirstElements = 64

func (l *list) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	size := l.raw.Size()
	switch {
	case err != nil:
		return types.ValOrErr(index, "%v", err)
	case i < 0 || i >= size:
		return types.NewErr("index '%d' out of range in list size '%d'", i, size)
	}
	return l.at(i)
}

func (l *list) Iterator() traits.Iterator { return &items{list: l} }
func (l *list) Size() ref.Val             { return types.Int(l.raw.Size()) }
func (l *list) IsZeroValue() bool         { return l.Size() == types.IntZero }
func (l *list) Type() ref.Type            { return types.ListType }
func (l *list) Add(other ref.Val) ref.Val { return l.whole().Add(other) }

// Contains implements traits.Container, as lists of the library do.
func (l *list) Contains(element ref.Val) ref.Val {
	for i := range l.raw.Size() {
		if element.Equal(l.at(i)) == types.True {
			return types.True
		}
	}
	return types.False
}

// Equal implements ref.Val, as lists of the library do.
func (l *list) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Lister)
	if !ok || with.Size() != l.Size() {
		return types.False
	}
	if lying, ok := with.(*list); ok && bytes.Equal(l.raw.Bytes(), lying.raw.Bytes()) {
		return types.True
	}
	for i := range l.raw.Size() {
		if types.Equal(l.at(i), with.Get(types.Int(i))) == types.False {
			return types.False
		}
	}
	return types.True
}

func (l *list) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.whole().ConvertToType(t)
}

func (l *list) ConvertToNative(t reflect.Type) (any, error) { return l.whole().ConvertToNative(t) }
func (l *list) Value() any                                  { return l.whole().Value() }

// String returns the list for messages.
func (l *list) String() string {
	var text []string
	for i := range l.raw.Size() {
		text = append(text, fmt.Sprint(l.at(i)))
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// whole returns the list of the library with the same elements, each of them still lazy.
func (l *list) whole() traits.Lister {
	if l.all == nil {
		elements := make([]ref.Val, l.raw.Size())
		for i := range elements {
			elements[i] = l.at(i)
		}
		l.all = types.NewRefValList(types.DefaultTypeAdapter, elements)
	}
	return l.all
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
