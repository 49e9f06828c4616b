package strategic

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
)

// Patch is a strategic merge patch, checked and parsed once. It is immutable and may be used concurrently.
type Patch struct {
	tree           object
	keys           mergeKeys
	contradictions []Contradiction
}

// Parse parses a patch for objects of the type of like, whose tags determine the merge keys of lists. It returns an
// error for a patch that can never be applied, because it is not an object, has invalid directives, or has parts of
// other types than the object.
func Parse(raw []byte, like any) (*Patch, error) {
	d, err := document.Parse(raw) // refuses duplicate keys, which encoding/json does not
	if err != nil {
		return nil, err
	}
	defer d.Release()
	tree, ok := d.Root().Tree().(object)
	if !ok {
		return nil, fmt.Errorf("is %s, not an object", d.Root().Kind())
	}
	if text := quantity.Hostile(tree, quantity.Place{}); text != "" {
		return nil, fmt.Errorf("has the quantity %.40q, which is more than 64 digits or an exponent of more than two", text)
	}
	if _, replaces := tree[wholeDirective]; replaces {
		return nil, errors.New("has $patch at its top, which drops the whole object; put it further down")
	}
	known, err := strategicpatch.NewPatchMetaFromStruct(like)
	if err != nil {
		return nil, err
	}
	p := &Patch{tree: tree, keys: mergeKeys{known: known}}
	var n normalizer
	if n.object(tree, p.keys, nil); n.err != nil {
		return nil, n.err
	}
	p.contradictions = n.contradictions
	return p, p.check(reflect.TypeOf(like))
}

// Contradictions returns the lists to which the patch adds values that it also deletes. Such a patch can be applied:
// the deletion wins.
func (p *Patch) Contradictions() []Contradiction { return p.contradictions }

// check applies the patch to an empty object and to an object that has everything that the patch names.
func (p *Patch) check(like reflect.Type) error {
	for _, base := range []object{{}, skeleton(p.tree).(object)} {
		merged, err := p.mergeInto(base)
		if err != nil {
			return err
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(encode(clean(merged)), reflect.New(like).Interface()); err != nil {
			return errors.New(document.DecodeProblem(err))
		}
	}
	return nil
}

// UnknownFields returns an error text for each field of the patch that the Go type does not have, which may be a typing
// mistake.
func (p *Patch) UnknownFields(like any) (unknown []string) {
	into := reflect.New(reflect.TypeOf(like)).Interface()
	problems, _ := kjson.UnmarshalStrict(encode(skeleton(p.tree)), into, kjson.DisallowUnknownFields)
	for _, problem := range problems {
		unknown = append(unknown, problem.Error())
	}
	return unknown
}

// Sets reports whether the patch sets a place to a value that is not null. An element of a list is known by its name.
func (p *Patch) Sets(names ...string) bool {
	var at any = p.tree
	for _, name := range names {
		switch in := at.(type) {
		case object:
			at = in[name]
		case []any:
			at = named(in, name)
		default:
			return false
		}
	}
	return at != nil
}

// named returns the element of a list with a name, or nil.
func named(list []any, name string) any {
	for _, element := range list {
		if is, ok := element.(object); ok && is["name"] == name {
			return is
		}
	}
	return nil
}

// Members returns the names of the patch's members at a place, sorted.
func (p *Patch) Members(names ...string) []string {
	at := p.tree
	for _, name := range names {
		at, _ = at[name].(object)
	}
	return slices.Sorted(maps.Keys(at))
}

// Without returns the patch without a member of one of its parts, which must be there.
func (p *Patch) Without(part, name string) *Patch {
	less := *p
	less.tree = maps.Clone(p.tree)
	left := maps.Clone(p.tree[part].(object))
	delete(left, name)
	less.tree[part] = left
	return &less
}
