package expression

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// drawer draws expressions from all functions and macros of an environment.
type drawer struct {
	*rand.Rand
	parts []piece
	scope []variable // of the macros around
}

// piece is an overload of a function, a macro, or the selection of a field.
type piece struct {
	name   string
	result *cel.Type
	draw   func(d *drawer, bound map[string]*cel.Type, depth int) string
}

type variable struct {
	name string
	of   *cel.Type
}

// macro has a range, variables, and bodies that see them.
type macro struct {
	keys         string // name and number of arguments
	result, over *cel.Type
	vars, bodies []*cel.Type
}

// macros are those of the environment besides has.
func macros() []macro {
	a, b, k, truth, number := cel.TypeParamType("A"), cel.TypeParamType("B"), cel.TypeParamType("K"), cel.BoolType, cel.IntType
	list, object, as, bs, entries := cel.ListType(a), cel.MapType(k, a), []*cel.Type{a}, []*cel.Type{b}, cel.MapType(k, b)
	return []macro{
		{"all:2 exists:2 exists_one:2", truth, list, as, []*cel.Type{truth}},
		{"all:3 exists:3 exists_one:3", truth, object, []*cel.Type{k, a}, []*cel.Type{truth}},
		{"existsOne:3", truth, list, []*cel.Type{number, a}, []*cel.Type{truth}},
		{"filter:2", list, list, as, []*cel.Type{truth}},
		{"map:2", cel.ListType(b), list, as, bs},
		{"map:3", cel.ListType(b), list, as, []*cel.Type{truth, b}},
		{"sortBy:2", list, list, as, []*cel.Type{number}},
		{"optMap:2", cel.OptionalType(b), cel.OptionalType(a), as, bs},
		{"optFlatMap:2", cel.OptionalType(b), cel.OptionalType(a), as, []*cel.Type{cel.OptionalType(b)}},
		{"transformList:3", cel.ListType(b), object, []*cel.Type{k, a}, bs},
		{"transformList:4", cel.ListType(b), list, []*cel.Type{number, a}, []*cel.Type{truth, b}},
		{"transformMap:3", entries, object, []*cel.Type{k, a}, bs},
		{"transformMap:4", cel.MapType(number, b), list, []*cel.Type{number, a}, []*cel.Type{truth, b}},
		{"transformMapEntry:3", entries, list, []*cel.Type{number, a}, []*cel.Type{entries}},
		{"transformMapEntry:4", entries, list, []*cel.Type{number, a}, []*cel.Type{truth, entries}},
	}
}

func (m macro) draw(name string) func(*drawer, map[string]*cel.Type, int) string {
	return func(d *drawer, bound map[string]*cel.Type, depth int) string {
		text, outside := fmt.Sprintf("(%s).%s(", d.of(d.concrete(m.over, bound), depth), name), len(d.scope)
		var arguments []string
		for _, of := range m.vars {
			v := variable{fmt.Sprint("v", len(d.scope)), d.concrete(of, bound)}
			d.scope, arguments = append(d.scope, v), append(arguments, v.name)
		}
		for _, of := range m.bodies {
			arguments = append(arguments, d.of(d.concrete(of, bound), depth))
		}
		d.scope = d.scope[:outside]
		return text + strings.Join(arguments, ", ") + ")"
	}
}

// partsOf returns the functions and macros of an environment that an expression can call. What the authorizer is for cannot be: policies
// of usher have none.
func partsOf(env *cel.Env) (all []piece, unknown []string) {
	known := macros()
	for _, m := range env.Macros() {
		key := fmt.Sprintf("%s:%d", m.Function(), m.ArgCount())
		if i := slices.IndexFunc(known, func(k macro) bool { return slices.Contains(strings.Fields(k.keys), key) }); i >= 0 {
			all = append(all, piece{key, known[i].result, known[i].draw(m.Function())})
		} else if m.Function() != "has" {
			unknown = append(unknown, key)
		}
	}
	for name, f := range env.Functions() {
		for _, o := range f.OverloadDecls() {
			types := append(slices.Clone(o.ArgTypes()), o.ResultType())
			if name == "__not_strictly_false__" || strings.Contains(strings.TrimPrefix(name, operators.In), "@") || slices.ContainsFunc(types, func(t *cel.Type) bool { return strings.Contains(t.TypeName(), ".authorization.") }) {
				continue
			}
			all = append(all, piece{name + " " + o.ID(), o.ResultType(), func(d *drawer, bound map[string]*cel.Type, depth int) string {
				return d.call(name, o.IsMemberFunction(), o.ArgTypes(), bound, depth)
			}})
		}
	}
	field := func(format string, over, result *cel.Type) {
		all = append(all, piece{fmt.Sprintf(format, over), result, func(d *drawer, bound map[string]*cel.Type, depth int) string {
			return fmt.Sprintf(format, "("+d.of(d.concrete(over, bound), depth)+")")
		}})
	}
	a := cel.TypeParamType("A")
	byName := cel.MapType(cel.StringType, a)
	for _, over := range []*cel.Type{byName, cel.OptionalType(byName), cel.DynType} {
		field("has(%s.a)", over, cel.BoolType)
	}
	field("%s.a", byName, a)
	field("%s.a", cel.OptionalType(byName), cel.OptionalType(a))
	field("%s.?a", byName, cel.OptionalType(a))
	slices.SortFunc(all, func(a, b piece) int { return strings.Compare(a.name, b.name) })
	return all, unknown
}

// call draws a call of a function, written as the operator that it is.
func (d *drawer) call(name string, member bool, of []*cel.Type, bound map[string]*cel.Type, depth int) string {
	var arguments []string
	for _, argument := range of {
		if name == "lists.range" {
			depth = 0 // of ordinary length
		}
		arguments = append(arguments, d.of(d.concrete(argument, bound), depth))
	}
	operator, _ := operators.FindReverseBinaryOperator(name)
	switch {
	case name == operators.Conditional:
		return fmt.Sprintf("(%s ? %s : %s)", arguments[0], arguments[1], arguments[2])
	case name == operators.Index:
		return fmt.Sprintf("(%s)[%s]", arguments[0], arguments[1])
	case name == operators.OptIndex:
		return fmt.Sprintf("(%s)[?%s]", arguments[0], arguments[1])
	case name == operators.OptSelect:
		return fmt.Sprintf("(%s).?a", arguments[0])
	case name == operators.LogicalNot, name == operators.Negate:
		return name[:1] + "(" + arguments[0] + ")"
	case name == "in", name == operators.In:
		operator = "in"
	}
	switch {
	case operator != "":
		return "(" + strings.Join(arguments, " "+operator+" ") + ")"
	case member:
		return fmt.Sprintf("(%s).%s(%s)", arguments[0], name, strings.Join(arguments[1:], ", "))
	}
	return name + "(" + strings.Join(arguments, ", ") + ")"
}

// of draws an expression of a type; now and then one of any type, or of another one.
func (d *drawer) of(want *cel.Type, depth int) string {
	switch {
	case d.IntN(40) == 0:
		want = d.any()
	case d.IntN(12) == 0:
		of := pick(d.Rand, want, want, want, d.any())
		if of.TypeName() == "optional_type" { // see TestOnPurposeUnlikeTheAPIServer
			of = cel.DynType
		}
		return "dyn(" + d.of(of, depth-1) + ")"
	}
	if depth <= 0 || d.IntN(4) == 0 {
		return d.leaf(want)
	}
	var fitting []int
	for i := range d.parts {
		if unify(d.parts[i].result, want, map[string]*cel.Type{}) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return d.leaf(want)
	}
	return d.piece(d.parts[pick(d.Rand, fitting...)], want, depth)
}

// piece draws an expression that calls a piece, for a result of a type; nil: any.
func (d *drawer) piece(p piece, want *cel.Type, depth int) string {
	bound := map[string]*cel.Type{}
	if want != nil {
		unify(p.result, want, bound)
	}
	return p.draw(d, bound, depth-1)
}

// any draws a type.
func (d *drawer) any() *cel.Type {
	simple := pick(d.Rand, cel.IntType, cel.StringType, cel.BoolType, cel.DoubleType, cel.UintType, cel.BytesType, cel.DurationType, cel.TimestampType, cel.DynType)
	switch d.IntN(6) {
	case 0:
		return cel.ListType(simple)
	case 1:
		return cel.MapType(pick(d.Rand, cel.StringType, cel.IntType), simple)
	case 2:
		return cel.OptionalType(simple)
	}
	return simple
}

// unify reports whether a type with parameters can be another one, and binds the parameters.
func unify(pattern, want *cel.Type, bound map[string]*cel.Type) bool {
	if pattern.Kind() == types.TypeParamKind {
		if is := bound[pattern.TypeName()]; is != nil {
			return is.IsExactType(want)
		}
		bound[pattern.TypeName()] = want
		return true
	}
	a, b := pattern.Parameters(), want.Parameters()
	if pattern.Kind() != want.Kind() || pattern.TypeName() != want.TypeName() || len(a) != len(b) {
		return false
	}
	for i := range a {
		if !unify(a[i], b[i], bound) {
			return false
		}
	}
	return true
}

// concrete returns a type without parameters, and binds those that have no type yet.
func (d *drawer) concrete(of *cel.Type, bound map[string]*cel.Type) *cel.Type {
	parameters := of.Parameters()
	switch {
	case of.Kind() == types.TypeParamKind:
		if bound[of.TypeName()] == nil {
			bound[of.TypeName()] = d.any()
		}
		return bound[of.TypeName()]
	case of.TypeName() == "optional_type":
		return cel.OptionalType(d.concrete(parameters[0], bound))
	case of.Kind() == types.ListKind:
		return cel.ListType(d.concrete(parameters[0], bound))
	case of.Kind() == types.MapKind:
		if key := parameters[0]; key.Kind() == types.TypeParamKind && bound[key.TypeName()] == nil {
			bound[key.TypeName()] = pick(d.Rand, cel.StringType, cel.StringType, cel.IntType)
		}
		return cel.MapType(d.concrete(parameters[0], bound), d.concrete(parameters[1], bound))
	}
	return of
}

// literals are expressions of types without parameters.
var literals = map[string][]string{
	"bool": {"true", "false"}, "int": {"0", "1", "2", "-1", "3", "7"}, "uint": {"0u", "1u", "3u"}, "double": {"0.5", "1.0", "-2.5", "1e3"}, "null_type": {"null"},
	"string": {"'a'", "''", "'abc'", "'b'", "'1'", "'true'", "'1Gi'", "'10.0.0.1'", "'10.0.0.0/8'", "'https://a.example:80/b?c=d'", "'1.2.3'", "'2026-01-02T03:04:05Z'", "'1h'",
		"'UTC'", "'[a-b]+'", "'%s'", "'é'", "'dns1123Label'", "object.metadata.name", "request.name", "request.userInfo.username", "namespaceObject.metadata.name"},
	"bytes": {"b'a'", "b''", "b'abc'"}, "google.protobuf.Duration": {"duration('1h')", "duration('-90s')"},
	"google.protobuf.Timestamp": {"timestamp('2026-01-02T03:04:05Z')", "timestamp('1999-12-31T23:59:59.5Z')"},
	"kubernetes.Quantity":       {"quantity('1Gi')", "quantity('500m')", "quantity('-2')"}, "kubernetes.URL": {"url('https://a.example:80/b?c=d&c=e')", "url('/x y')"},
	"net.IP": {"ip('10.0.0.1')", "ip('::1')"}, "net.CIDR": {"cidr('10.0.0.0/8')", "cidr('fe80::/10')"}, "kubernetes.Semver": {"semver('1.2.3')", "semver('1.2.4-rc.1')"},
	"kubernetes.NamedFormat": {"format.dns1123Label()", "format.uuid()"},
	"dyn": {"object", "oldObject", "object.a", "object.b", "object.c[0]", "object.a.b", "object.?a.orValue(1)", "object[?'b'].orValue([])", "oldObject.a", "dyn(1)", "dyn('a')",
		"dyn({'a': 1})", "dyn([1, 'a'])", "dyn(null)", "dyn(1.0)", "object.metadata", "request.?options"},
	"list(string)": {"request.userInfo.groups"}, // not drawn as dyn, nor typed maps at all: see TestOnPurposeUnlikeTheAPIServer
}

// leaf draws a variable of a macro, or a literal.
func (d *drawer) leaf(want *cel.Type) string {
	for _, v := range slices.Backward(d.scope) {
		if v.of.IsExactType(want) && d.IntN(2) == 0 {
			return v.name
		}
	}
	if whole := literals[want.String()]; len(want.Parameters()) > 0 && len(whole) > 0 && d.IntN(3) == 0 {
		return pick(d.Rand, whole...)
	}
	parameters := want.Parameters()
	var elements []string
	switch {
	case want.TypeName() == "optional_type":
		return pick(d.Rand, "optional.none()", "optional.of("+d.leaf(parameters[0])+")", "optional.of("+d.leaf(parameters[0])+")")
	case want.Kind() == types.TypeKind:
		return "type(" + d.leaf(cel.IntType) + ")"
	case want.Kind() == types.ListKind:
		for range d.IntN(4) {
			elements = append(elements, d.leaf(parameters[0]))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case want.Kind() == types.MapKind:
		for range d.IntN(3) {
			key := pick(d.Rand, "dyn('a')", "dyn(1)") // a list or map is found as a key only if it is the same in memory
			if kind := parameters[0].Kind(); kind != types.DynKind && kind != types.ListKind && kind != types.MapKind {
				key = d.leaf(parameters[0])
			}
			elements = append(elements, key+": "+d.leaf(parameters[1]))
		}
		return "{" + strings.Join(elements, ", ") + "}"
	}
	return pick(d.Rand, literals[want.TypeName()]...)
}
