package expression

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"usher.dev/usher/admit/document"
)

// object is a JSON object as a map of CEL, a traits.Mapper. What expressions rarely do with a map as a whole is left to the library's
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

func (o *object) Contains(key ref.Val) ref.Val {
	o.reader.step()
	name, ok := key.(types.String)
	return types.Bool(ok && o.raw.Member(string(name)).Exists())
}

func (o *object) Get(key ref.Val) ref.Val {
	if value, found := o.Find(key); found {
		return value
	}
	return types.NewErr("no such key: %v", key)
}

// Iterator returns the keys in the order of the document.
func (o *object) Iterator() traits.Iterator { return &keys{reader: o.reader, rest: o.raw.Children()} }

func (o *object) Size() ref.Val     { return types.Int(o.raw.Size()) }
func (o *object) IsZeroValue() bool { return o.Size() == types.IntZero }
func (o *object) Type() ref.Type    { return types.MapType }

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

func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return o
	}
	return o.whole().ConvertToType(t)
}

func (o *object) ConvertToNative(t reflect.Type) (any, error) { return o.whole().ConvertToNative(t) }
func (o *object) Value() any                                  { return o.whole().Value() }

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
