package expression

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/test/seed"
)

// The oracle: what the API server evaluates, an object decoded into maps and slices.
func unstructured(t testing.TB, text []byte) ref.Val {
	t.Helper()
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &tree); err != nil {
		t.Fatal(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(tree)
}

// operations are expressions on two values x and y of any type. Most fail for most values; then they must fail for both.
var operations = []string{
	"x", "x == y", "y != x", "x.a", "has(x.a)", "has(x.a.b)", "x.?a.?b.orValue(1)", "x[?0]", "x[0]", "x['a']", "x[y]", "x[?y].hasValue()", "y in x",
	"dyn(size(x))", "x + y", "x + [y]", "[y] + x", "type(x)", "type(x) == map", "type(x) == list", "x < y", "x > 1", "x <= 1.0", "x == null", "string(x)",
	"int(x)", "double(x)", "bool(x)", "!x", "-x", "x && y", "x ? 1 : 2", "dyn(x.map(i, i))", "dyn(x.map(i, dyn(x)[i]).size())", "x.filter(i, i == y)",
	"x.all(i, i == y)", "x.exists(i, i == 'a')", "x.exists_one(i, i == 1)", "x.all(k, v, k == v || v == y)", "x.exists(k, v, v == y)",
	"optional.ofNonZeroValue(x).hasValue()", "optional.of(x).value() == x", "{'k': x} == {'k': y}", "[x, y] == [y, x]", "{'k': x}.k", "x.b.c.d", "x.a[0].b",
	"dyn('%s'.format([x]) != '')", "x.join(',')", "x.isSorted()", "x.sum()", "x.max()", "x.indexOf(y)", "sets.contains(x, y)", "sets.equivalent(x, x)",
	"x.startsWith('a')", "x.size() > 2", "x.matches('^a')", "quantity(x).isLessThan(quantity('3'))", "isQuantity(x)", "x.reverse()", "x.slice(0, 1)",
	"x.flatten()", "x.distinct()", "x.sort()", "x.first().hasValue()", "x.transformList(i, v, v)", "x.transformMap(k, v, v)", "x.map(i, y in x)",
	"x.matches(y)", "x.find('[a-c]+')", "x.find(y)", "x.findAll('a?')", "x.findAll(y)", "x.findAll('.', 2)", "x.split(y)", "x.split('', 2)", "x.replace(y, 'b')",
	"x.replace('a', 'b', 1)", "x.charAt(0)", "x.lowerAscii()", "x.trim()", "x.substring(1)", "x.substring(0, 1)", "x.contains(y)", "x.endsWith(y)", "x.indexOf(y, 1)",
	"x.lastIndexOf(y)", "strings.quote(x)", "bytes(x)", "timestamp(x)", "duration(x)", "uint(x)", "isURL(x)", "url(x).getHost()", "isIP(x)", "isCIDR(x)", "isSemver(x)",
	"semver(x).major()", "format.dns1123Label().validate(x).hasValue()", "x.includes(y)", "x.last()", "x.min()", "x.sort() == y", "sets.intersects(x, y)", "lists.range(3) == x",
	"x.sortBy(i, i == y)", "x.flatten(2)", "x.transformMapEntry(k, v, {k: v})", "[x, x, x, x, x, x, x, x, x, y].size()", "x.all(i, y.all(j, i != j))", "x.exists(k, v, v in [1, 2])",
	"x.map(i, i == y, [i, y]).all(i, i.size() == 2)", "x.all(i, x.exists(j, i == j) && !(y in x))", "x.?a.optMap(v, v == y).orValue(true)", "x.all(i, (x[?0].orValue(i) == i) || y == i)",
	"x.filter(i, x.?a.orValue(i) == i).map(i, i).all(i, i != y)", "(x.a ? x : y).all(i, i == 'a')", "x.?a.orValue(x).all(i, i == 1)", "x.a.all(i, i == y)", "x[0].all(i, i == y)",
	"y in ['a', 'b'] && x.exists_one(i, i in [1, 2])", "x.all(i, x.all(j, j == i || [i, j].exists(k, k == y)))",
}

// TestValuesAreThoseOfTheAPIServer: on random JSON, every operation on values that are read where they lie gives what it
// gives on the decoded object, at the same cost, also if calls and loops are bounded.
func TestValuesAreThoseOfTheAPIServer(t *testing.T) {
	programs, bounded := operationPrograms(t)
	random := seed.Random(t)
	results := 0
	for range 1_000 {
		x, y := randomJSON(random, 3), randomJSON(random, 2)
		read := reader{ctx: t.Context()}
		lazy := map[string]any{"x": read.value(raw(t, x)), "y": read.value(raw(t, y))}
		decoded := map[string]any{"x": unstructured(t, []byte(x)), "y": unstructured(t, []byte(y))}
		for i, program := range programs {
			if program == nil {
				continue
			}
			ordered := !strings.Contains(x+y, "{") // the cost depends on the order of a map, which is random
			got, want := outcome(program, lazy, ordered), outcome(program, decoded, ordered)
			if got != want && got != outcome(program, decoded, ordered) {
				t.Fatalf("%s with\nx = %s\ny = %s\ngot  %s\nwant %s", operations[i], x, y, got, want)
			}
			if got, want = outcome(bounded[i], lazy, true), outcome(program, lazy, true); got != want && got != outcome(bounded[i], lazy, true) {
				t.Fatalf("bounded: %s with\nx = %s\ny = %s\ngot  %s\nwant %s", operations[i], x, y, got, want)
			}
			if !strings.HasPrefix(want, "error") {
				results++
			}
		}
		if same := decoded["x"].(ref.Val).Equal(lazy["x"].(ref.Val)); same != types.True {
			t.Fatalf("%s: not equal to itself, decoded: %v", x, same)
		}
	}
	if results < 20_000 {
		t.Errorf("only %d operations had a result", results)
	}
}

func operationPrograms(t testing.TB) (programs, bounded []cel.Program) {
	t.Helper()
	compiler := newCompiler(t)
	env, err := compiler.env.Extend(cel.Variable("x", cel.DynType), cel.Variable("y", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range operations {
		tree, issues := env.Compile(text)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", text, issues.Err())
		}
		program, err := env.Program(tree)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program)
		x := &compiled{loops: loopsOf(tree.NativeRep()), overloads: compiler.overloads}
		if program, err = env.Program(tree, cel.CostTracking(&yielding{}), cel.CustomDecoratorV2(x.bounded)); err != nil {
			t.Fatal(err)
		}
		bounded = append(bounded, program)
	}
	return programs, bounded
}

// outcome returns the result of a program, and what it cost.
func outcome(program cel.Program, variables map[string]any, ordered bool) string {
	value, details, err := program.Eval(variables)
	if err != nil {
		text := fmt.Sprint(err)
		if at := strings.IndexAny(text, "{[*"); at >= 0 { // a value or its Go type, which differ in how they are shown
			text = strings.TrimSuffix(text[:at], "map")
		}
		return "error: " + text
	}
	if !ordered {
		return canonical(value, true)
	}
	return fmt.Sprintf("%s for %d", canonical(value, false), *details.ActualCost())
}

// canonical returns a value as text, with the keys of maps in order, and if sorted is set, the elements of lists.
func canonical(v ref.Val, sorted bool) string {
	var parts []string
	switch v := v.(type) {
	case traits.Mapper:
		for i := v.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			parts = append(parts, canonical(key, sorted)+": "+canonical(v.Get(key), sorted))
		}
		slices.Sort(parts)
	case traits.Lister:
		for i := range int(v.Size().(types.Int)) {
			parts = append(parts, canonical(v.Get(types.Int(i)), sorted))
		}
		if sorted {
			slices.Sort(parts)
		}
	case *types.Optional:
		if v.HasValue() {
			parts = append(parts, canonical(v.GetValue(), sorted))
		}
	default:
		return fmt.Sprintf("%v %v", v.Type(), v.Value())
	}
	return fmt.Sprintf("%v %s", v.Type(), parts)
}

// randomJSON returns a value with few names and few strings, so that values meet.
func randomJSON(random *rand.Rand, depth int) string {
	scalars := []string{`"a"`, `"b"`, `"abc"`, `"5"`, `"1Gi"`, `"\u0061"`, `"a\nb"`, `"é"`, `""`, "0", "1", "-7", "1.0", "1.5", "1e2", "9223372036854775807", "9223372036854775808",
		"-0", "true", "false", "null", "{}", "[]"}
	kind := random.IntN(3)
	if depth == 0 || kind == 0 {
		return scalars[random.IntN(len(scalars))]
	}
	var parts []string
	for i := range random.IntN(4) {
		part := randomJSON(random, depth-1)
		if kind == 1 {
			part = fmt.Sprintf("%q: %s", "abcd"[i:i+1], part)
		}
		parts = append(parts, part)
	}
	if kind == 1 {
		return "{" + strings.Join(parts, " , ") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// sameAsDecoded fails the test if a program has another result on an object where it lies than on the decoded one.
func sameAsDecoded(t *testing.T, program cel.Program, text []byte, object document.Raw) {
	t.Helper()
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &tree); err != nil {
		return // such as a number that is too large
	}
	variables := func(object ref.Val) map[string]any {
		return map[string]any{"x": object, "object": object, "oldObject": object, "request": types.NullValue, "namespaceObject": types.NullValue,
			"variables": types.NullValue}
	}
	read := reader{ctx: t.Context()}
	ordered := object.Kind() != document.Object
	got := outcome(program, variables(read.value(object)), ordered)
	for range 5 { // maps are iterated in random order
		if got == outcome(program, variables(types.DefaultTypeAdapter.NativeToValue(tree)), ordered) {
			return
		}
	}
	if !strings.HasPrefix(got, "error") {
		t.Errorf("got %s, and %s on the decoded object", got, outcome(program, variables(types.DefaultTypeAdapter.NativeToValue(tree)), ordered))
	}
}

// FuzzEvaluate: no expression and no object makes the evaluation panic, and each has the result that it has on the decoded
// object.
func FuzzEvaluate(f *testing.F) {
	for i, text := range operations {
		f.Add(strings.NewReplacer("x", "object", "y", "oldObject").Replace(text), `{"a":[1,{"b":null}],"b":"`+fmt.Sprint(i)+`"}`)
	}
	c := newCompiler(f)
	f.Fuzz(func(t *testing.T, text, object string) {
		d, err := document.Parse([]byte(object))
		if err != nil || len(text) > 500 {
			return
		}
		p, problems := c.Compile(Expressions{Variables: []Named{{"v", text}}, Validations: []Validation{{Expression: "variables.v == object", MessageExpression: "string(" + text + ")"}}}, nil)
		if len(problems) > 0 {
			return
		}
		p.Evaluate(t.Context(), &Review{Object: d.Root().Raw(), OldObject: d.Root().Raw(), Request: d.Root().Raw()})
		if isMap := d.Root().Kind() == document.Object; isMap && len(object) < 1000 {
			sameAsDecoded(t, p.variables[0].program, []byte(object), d.Root().Raw())
		}
	})
}
