package expression

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
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

// object is a JSON object as a map of CEL. What expressions rarely do with a map as a whole is left to the library's
// own map, made of the same members.
type object struct {
	raw     document.Raw
	reader  *reader
	members members
	all     traits.Mapper // nil: not needed yet
}

// members are the members of an object that were read: the first few in a list, which is the fastest.
type members struct {
	few  []member
	many map[string]ref.Val
}

type member struct {
	name  string
	value ref.Val
}

// fewMembers is the number of members above which they are in a map.
const fewMembers = 8

func (m *members) find(name string) (ref.Val, bool) {
	if m.many != nil {
		value, ok := m.many[name]
		return value, ok
	}
	for i := range m.few {
		if m.few[i].name == name {
			return m.few[i].value, true
		}
	}
	return nil, false
}

func (m *members) add(name string, value ref.Val) {
	switch {
	case m.many != nil:
		m.many[name] = value
	case len(m.few) < fewMembers:
		m.few = append(m.few, member{name, value})
	default:
		m.many = map[string]ref.Val{name: value}
		for _, before := range m.few {
			m.many[before.name] = before.value
		}
		m.few = nil
	}
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	o.reader.step()
	if value, ok := o.members.find(string(name)); ok {
		return value, true
	}
	raw := o.raw.Member(string(name))
	if !raw.Exists() {
		return nil, false
	}
	value := o.reader.value(raw)
	o.members.add(string(name), value)
	return value, true
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	o.reader.step()
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
func (o *object) Iterator() traits.Iterator { return &keys{reader: o.reader, rest: o.raw.Children()} }

// Size implements traits.Sizer.
func (o *object) Size() ref.Val { return types.Int(o.raw.Size()) }

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool { return o.Size() == types.IntZero }

// Type implements ref.Val.
func (o *object) Type() ref.Type { return types.MapType }

// Equal implements ref.Val, as maps of the library do.
func (o *object) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Mapper)
	if !ok || with.Size() != o.Size() {
		return types.False
	}
	lying, isLying := with.(*object)
	if isLying && bytes.Equal(o.raw.Bytes(), lying.raw.Bytes()) {
		return types.True
	}
	for rest := o.raw.Children(); rest.More(); {
		o.reader.step()
		mine := rest.Next()
		same := false
		if isLying {
			same = o.reader.same(mine, lying.raw.Member(mine.Key()))
		} else if theirs, found := with.Find(types.String(mine.Key())); found {
			same = types.Equal(o.reader.value(mine), theirs) != types.False
		}
		if !same {
			return types.False
		}
	}
	return types.True
}

// same reports whether two members of objects are equal. It keeps nothing of them, and makes no values of texts.
func (r *reader) same(a, b document.Raw) bool {
	mine, theirs := a.Bytes(), b.Bytes()
	switch {
	case !b.Exists():
		return false
	case bytes.Equal(mine, theirs):
		return true
	case a.Kind() == document.Text && b.Kind() == document.Text && bytes.IndexByte(mine, '\\') < 0 && bytes.IndexByte(theirs, '\\') < 0:
		return false
	}
	return types.Equal(r.value(a), r.value(b)) != types.False
}

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
	if o.all == nil {
		members := make(map[ref.Val]ref.Val, o.raw.Size())
		for i := o.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			members[key] = o.Get(key)
		}
		o.all = types.NewRefValMap(types.DefaultTypeAdapter, members)
	}
	return o.all
}

// list is a JSON array as a list of CEL.
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

// Get implements traits.Indexer.
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

// Iterator implements traits.Iterable.
func (l *list) Iterator() traits.Iterator { return &items{list: l} }

// Size implements traits.Sizer.
func (l *list) Size() ref.Val { return types.Int(l.raw.Size()) }

// IsZeroValue implements traits.Zeroer.
func (l *list) IsZeroValue() bool { return l.Size() == types.IntZero }

// Type implements ref.Val.
func (l *list) Type() ref.Type { return types.ListType }

// Add implements traits.Adder.
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
