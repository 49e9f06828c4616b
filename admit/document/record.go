package document

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Record records as edits what differs between two Go values: before, which As has decoded from v, and after. Structs
// and maps are compared by member, lists as described at matching. What the Go type does not know is in neither, so it
// is kept. Equal values are no edit.
func Record[T any](v *Value, before, after T) {
	if v.doc.err == nil {
		v.record(reflect.ValueOf(&before).Elem(), reflect.ValueOf(&after).Elem(), tags{omit: true})
	}
}

// tags holds what a field's tags say about its value.
type tags struct {
	name     string
	inline   bool // its members belong to the object around it
	omit     bool // an empty value is left out
	mergeKey string
}

func tagsOf(f reflect.StructField) tags {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	t := tags{name: name, inline: name == "" && f.Anonymous, mergeKey: f.Tag.Get("patchMergeKey")}
	if name == "" {
		t.name = f.Name
	}
	t.omit = strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	return t
}

// record records the difference between two values of one type at v.
func (v *Value) record(before, after reflect.Value, t tags) {
	switch {
	case isEmpty(after):
		v.recordEmpty(before, after, t)
	case isEmpty(before):
		v.Set(after.Interface())
	case isLeaf(after.Type()):
		if !sameEncoding(before, after) {
			v.Set(after.Interface())
		}
	case after.Kind() == reflect.Pointer:
		v.record(before.Elem(), after.Elem(), tags{})
	case after.Kind() == reflect.Map:
		v.recordMap(before, after)
	case after.Kind() == reflect.Slice:
		v.recordList(before, after, t.mergeKey)
	default:
		v.recordStruct(before, after)
	}
}

// recordEmpty records that a value became empty.
func (v *Value) recordEmpty(before, after reflect.Value, t tags) {
	switch {
	case isEmpty(before):
	case t.omit:
		v.Remove()
	default:
		v.Set(after.Interface())
	}
}

func (v *Value) recordStruct(before, after reflect.Value) {
	for i := range after.NumField() {
		switch t := tagsOf(after.Type().Field(i)); {
		case t.name == "-":
		case t.inline:
			v.recordStruct(before.Field(i), after.Field(i))
		case !reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()):
			v.Get(t.name).record(before.Field(i), after.Field(i), t)
		}
	}
}

func (v *Value) recordMap(before, after reflect.Value) {
	for _, key := range sortedKeys(before) {
		if !after.MapIndex(key).IsValid() {
			v.Get(key.String()).Remove()
		}
	}
	for _, key := range sortedKeys(after) {
		is, was := after.MapIndex(key), before.MapIndex(key)
		if !was.IsValid() {
			v.Get(key.String()).Set(is.Interface())
		} else {
			v.Get(key.String()).record(was, is, tags{})
		}
	}
}

// sortedKeys returns the keys of a map, sorted, so that edits have a fixed order.
func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

// isEmpty reports whether omitempty leaves a value out; a struct is never left out, because it may have fields that
// its type does not know.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// isLeaf reports whether a value is compared as a whole, because it is no container or encodes itself, like a quantity.
func isLeaf(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		return isLeaf(t.Elem())
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return false
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	}
	return true
}

// sameEncoding reports whether two values have the same JSON, or are the same amount.
func sameEncoding(a, b reflect.Value) bool {
	if left, ok := reflect.Indirect(a).Interface().(resource.Quantity); ok {
		return left.Cmp(reflect.Indirect(b).Interface().(resource.Quantity)) == 0
	}
	return reflect.DeepEqual(a.Interface(), b.Interface()) || string(encode(a.Interface())) == string(encode(b.Interface()))
}
