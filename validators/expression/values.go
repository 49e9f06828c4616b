package expression

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"usher.dev/usher/admit/document"
)

// valueOf returns a part of a document as the value that an expression of the API server sees: whole numbers as int,
// others as double, absent as null. Objects and lists are read where they lie in the document, member by member, and
// only as far as the expression goes.
func valueOf(r document.Raw) ref.Val {
	switch r.Kind() {
	case document.Object:
		return &object{raw: r, size: -1}
	case document.Array:
		return &list{raw: r, size: -1}
	case document.Text:
		return types.String(r.Text())
	case document.True:
		return types.True
	case document.False:
		return types.False
	case document.Number:
		return number(r.Bytes())
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

// object is a JSON object as a map of CEL. What expressions rarely do with a map as a whole is left to the library's
// own map, made of the same members.
type object struct {
	raw  document.Raw
	size int // -1: not counted yet
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	member := o.raw.Member(string(name))
	if !member.Exists() {
		return nil, false
	}
	return valueOf(member), true
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	return types.Bool(ok && o.raw.Member(string(name)).Exists())
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	if value, found := o.Find(key); found {
		return value
	}
	return types.NewErr("no such key: %v", key)
}

// Iterator returns the keys in the order of the document.
func (o *object) Iterator() traits.Iterator {
	return &iterator{children: o.raw.Children(), value: func(r document.Raw) ref.Val { return types.String(r.Key()) }}
}

// Size implements traits.Sizer.
func (o *object) Size() ref.Val {
	if o.size < 0 {
		o.size = o.raw.Size()
	}
	return types.Int(o.size)
}

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool { return o.Size() == types.IntZero }

// Type implements ref.Val.
func (o *object) Type() ref.Type { return types.MapType }

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val { return o.whole().Equal(other) }

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return o
	}
	return o.whole().ConvertToType(t)
}

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) { return o.whole().ConvertToNative(t) }

// Value implements ref.Val.
func (o *object) Value() any { return o.whole().Value() }

// String returns the map for messages.
func (o *object) String() string { return fmt.Sprint(o.whole()) }

// whole returns the map of the library with the same members, each of them still lazy.
func (o *object) whole() traits.Mapper {
	members := map[ref.Val]ref.Val{}
	for c := o.raw.Children(); c.More(); {
		member := c.Next()
		members[types.String(member.Key())] = valueOf(member)
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, members)
}

// list is a JSON array as a list of CEL.
type list struct {
	raw      document.Raw
	size     int            // -1: not counted yet
	elements []document.Raw // nil: not needed yet
}

// at returns an element, found in constant time after the first call.
func (l *list) at(i int) ref.Val {
	if l.elements == nil {
		l.elements = make([]document.Raw, 0, int(l.Size().(types.Int)))
		for c := l.raw.Children(); c.More(); {
			l.elements = append(l.elements, c.Next())
		}
	}
	return valueOf(l.elements[i])
}

// Get implements traits.Indexer.
func (l *list) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	size := int(l.Size().(types.Int))
	switch {
	case err != nil:
		return types.ValOrErr(index, "%v", err)
	case i < 0 || i >= size:
		return types.NewErr("index '%d' out of range in list size '%d'", i, size)
	}
	return l.at(i)
}

// Iterator implements traits.Iterable.
func (l *list) Iterator() traits.Iterator {
	return &iterator{children: l.raw.Children(), value: valueOf}
}

// Size implements traits.Sizer.
func (l *list) Size() ref.Val {
	if l.size < 0 {
		l.size = l.raw.Size()
	}
	return types.Int(l.size)
}

// IsZeroValue implements traits.Zeroer.
func (l *list) IsZeroValue() bool { return l.Size() == types.IntZero }

// Type implements ref.Val.
func (l *list) Type() ref.Type { return types.ListType }

// Add implements traits.Adder.
func (l *list) Add(other ref.Val) ref.Val { return l.whole().Add(other) }

// Contains implements traits.Container.
func (l *list) Contains(element ref.Val) ref.Val { return l.whole().Contains(element) }

// Equal implements ref.Val.
func (l *list) Equal(other ref.Val) ref.Val { return l.whole().Equal(other) }

// ConvertToType implements ref.Val.
func (l *list) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.whole().ConvertToType(t)
}

// ConvertToNative implements ref.Val.
func (l *list) ConvertToNative(t reflect.Type) (any, error) { return l.whole().ConvertToNative(t) }

// Value implements ref.Val.
func (l *list) Value() any { return l.whole().Value() }

// String returns the list for messages.
func (l *list) String() string {
	var text []string
	for c := l.raw.Children(); c.More(); {
		text = append(text, fmt.Sprint(valueOf(c.Next())))
	}
	return "[" + strings.Join(text, ", ") + "]"
}

// whole returns the list of the library with the same elements, each of them still lazy.
func (l *list) whole() traits.Lister {
	elements := make([]ref.Val, 0, int(l.Size().(types.Int)))
	for c := l.raw.Children(); c.More(); {
		elements = append(elements, valueOf(c.Next()))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}

// iterator iterates over keys or elements.
type iterator struct {
	children document.Children
	value    func(document.Raw) ref.Val
}

// HasNext implements traits.Iterator.
func (i *iterator) HasNext() ref.Val { return types.Bool(i.children.More()) }

// Next implements traits.Iterator.
func (i *iterator) Next() ref.Val {
	if !i.children.More() {
		return nil
	}
	return i.value(i.children.Next())
}

// Type implements ref.Val.
func (i *iterator) Type() ref.Type { return types.IteratorType }

// Value implements ref.Val.
func (i *iterator) Value() any { return nil }

// Equal implements ref.Val. Expressions cannot get hold of an iterator.
func (i *iterator) Equal(ref.Val) ref.Val { return types.NewErr("no such overload") }

// ConvertToType implements ref.Val.
func (i *iterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

// ConvertToNative implements ref.Val.
func (i *iterator) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("an iterator has no native value")
}
