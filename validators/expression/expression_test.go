package expression

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

func raw(t testing.TB, text string) document.Raw {
	t.Helper()
	if text == "" {
		return document.Raw{}
	}
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d.Root().Raw()
}

func newCompiler(t testing.TB) *Compiler {
	t.Helper()
	c, err := NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compile(t testing.TB, c *Compiler, rule Expressions) *Program {
	t.Helper()
	p, problems := c.Compile(rule, field.NewPath("rules").Index(2))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// TestProblems: each problem of an expression names its place in the policy and in the text.
func TestProblems(t *testing.T) {
	one := func(expression string) Expressions {
		return Expressions{Validations: []Validation{{Expression: expression}}}
	}
	cases := []struct {
		name string
		rule Expressions
		want []string
	}{
		{"an unknown name", one("object.a > 1 &&\n  x == 2"),
			[]string{`rules[2].validations[0].expression: Invalid value`, `line 2 column 3: undeclared reference to 'x'; there are object, oldObject, request`}},
		{"two problems of one expression", one("x == y"), []string{`line 1 column 1: undeclared reference to 'x'`}},
		{"no CEL", one("object.a >"), []string{`line 1 column 11: Syntax error`}},
		{"no expression", one(" "), []string{`rules[2].validations[0].expression: Required value`}},
		{"not a truth value", one("object.a"), []string{`must result in bool, not dyn; compare it: ... == true`}},
		{"a list", one("[1]"), []string{`must result in bool, not list(int)`}},
		{"no authorizer", one("authorizer.group('').resource('pods').check('get').allowed()"), []string{"undeclared reference to 'authorizer'"}},
		{"no params", one("params.max > 1"), []string{"undeclared reference to 'params'"}},
		{"a field of request that does not exist", one("request.user == 'a'"), []string{"line 1 column 8: undefined field 'user'"}},
		{"a field of the namespace that usher does not have", one("namespaceObject.metadata.generation > 1"), []string{"undefined field 'generation'"}},
		{"a pattern that is none", one("object.a.matches('[')"), []string{"line 1 column 18: "}},
		{"a key that a map cannot have", one("{b'a': 1}.size() > 0"), []string{"validations[0].expression: ", "the keys of maps must be of type bool, int, uint or string"}},
		{"a message that is no text", Expressions{Validations: []Validation{{Expression: "true", MessageExpression: "1"}}},
			[]string{`rules[2].validations[0].messageExpression: Invalid value: "1": must result in string, not int`}},
		{"a message of two lines", Expressions{Validations: []Validation{{Expression: "true", Message: "a\nb"}}}, []string{`message: Invalid value: "a\nb": must be one line`}},
		{"all problems at once", Expressions{
			Variables:   []Named{{"a-b", "1"}, {"c", "x"}, {"d", "1"}, {"d", "2"}},
			Conditions:  []Named{{"", "true"}, {"n", "namespaceObject.metadata.name == 'a'"}},
			Validations: []Validation{{Expression: "variables.e"}, {Expression: "variables.c == variables.d"}},
		}, []string{
			`rules[2].variables[0].name: Invalid value: "a-b": must be an identifier`, `rules[2].variables[1].expression: `,
			`rules[2].variables[3].name: Duplicate value: "d"`, `rules[2].matchConditions[0].name: Required value`,
			`rules[2].matchConditions[1].expression: Forbidden: match conditions do not have namespaceObject`, `rules[2].validations[0].expression: `,
			`undefined field 'e'`,
		}},
		{"a variable sees those before it only", Expressions{Variables: []Named{{"a", "variables.b"}, {"b", "1"}}}, []string{`rules[2].variables[0].expression`, `undefined field 'b'`}},
		{"variables have types", Expressions{Variables: []Named{{"a", "[1, 2]"}}, Validations: []Validation{{Expression: "variables.a.all(x, x == 'y')"}}},
			[]string{`found no matching overload`}},
	}
	for _, slip := range [][2]string{{"object.a and true", "line 1 column 10: and is not CEL; write &&"}, {"true &&\n object.a OR true", "line 2 column 11: OR is not CEL; write ||"},
		{"not object.a", "line 1 column 5: not is not CEL; write !("}, {"object.a not in [1]", "not is not CEL; write !("}, {"object.a =~ 'a'", "=~ is not CEL; write text.matches('pattern')"},
		{"object.a = 1", "= is not CEL; write =="}, {"object.a === 1", "= is not CEL; write =="}, {"object.a & true", "write &&"}, {"object.a | true", "write ||"},
		{"object.a ? 1 elif 2", "elif is not CEL; write condition ? value : other"}, {"if object.a then 1", "if is not CEL; write condition ?"}, {"object.a == “é”", "texts in ' or \""},
		{"object.a == `é`", "texts in ' or \""}, {"object.a == 'é", "line 1 column 13: the text is not closed"}, {"object.a == 'it's'", "line 1 column 18: the text is not closed"}, {"object.a == 'a' 'b'", "extraneous input"}, {"object.a == None", "undeclared reference to 'None'; write null"}} {
		cases = append(cases, struct {
			name string
			rule Expressions
			want []string
		}{slip[0], one(slip[0]), []string{slip[1]}})
	}
	for name, limit := range beyondLimits() {
		cases = append(cases, struct {
			name string
			rule Expressions
			want []string
		}{name, one(limit[0]), []string{limit[1]}})
	}
	c := newCompiler(t)
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			_, problems := c.Compile(test.rule, field.NewPath("rules").Index(2))
			if len(problems) == 0 {
				t.Fatal("no problem")
			}
			for _, want := range test.want {
				if text := problems.ToAggregate().Error(); !strings.Contains(text, want) {
					t.Errorf("got %s\nwant %s", text, want)
				}
			}
		})
	}
}

// beyondLimits returns expressions that are beyond a limit of the library, each with its problem. Most of them have no place.
func beyondLimits() map[string][2]string {
	return map[string][2]string{
		"300 selections":      {"object" + strings.Repeat(".a", 300) + " == 1", `": max recursion depth exceeded`},
		"300 additions":       {"object.data.x" + strings.Repeat(" + 'a'", 300) + " == ''", `": max recursion depth exceeded`},
		"6,000 comparisons":   {"object.data.x == 'v0'" + strings.Repeat(" || object.data.x == 'v1'", 6000), `": expression code point size exceeds limit`},
		"300 parentheses":     {strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), `": expression recursion limit exceeded`},
		"300 lists":           {strings.Repeat("[", 300) + strings.Repeat("]", 300) + " == []", `": expression recursion limit exceeded`},
		"300 maps":            {strings.Repeat("{1:", 300) + "1" + strings.Repeat("}", 300) + " == {}", `": expression recursion limit exceeded`},
		"300 negations":       {strings.Repeat("!(", 300) + "true" + strings.Repeat(")", 300), `": expression recursion limit exceeded`},
		"300 open lines":      {strings.Repeat("(\n", 300), `": expression recursion limit exceeded`},
		"100,001 code points": {"'" + strings.Repeat("é", 100_001) + "' == ''", `": expression code point size exceeds limit`},
	}
}

// TestEvaluate covers what an expression sees, and what comes of its result.
func TestEvaluate(t *testing.T) {
	const pod = `{"metadata":{"name":"p","namespace":"n","labels":{"a":"b"}},"spec":{"n":1,"f":1.0,"big":9223372036854775808,"none":null,"l":[1,"2",{"x":[]}],` +
		`"cpu":"500m","ip":"10.0.0.7"}}`
	cases := []struct {
		name string
		rule Expressions
		old  string
		want string // the messages of violations, or the failures
	}{
		{name: "true", rule: expect("object.spec.n == 1 && object.metadata.labels.a == 'b'")},
		{name: "numbers", rule: expect("type(object.spec.n) == int && type(object.spec.f) == double && type(object.spec.big) == double && object.spec.f == 1.0")},
		{name: "null and missing", rule: expect("object.spec.none == null && has(object.spec.none) && !has(object.spec.missing) && oldObject == null")},
		{name: "fields of what optionals have", rule: expect("object.metadata.?labels.orValue({})[?'a'] == optional.of('b') && object.?x.or(object.?spec).n.hasValue() && !has(object.?x.orValue({}).y)")},
		{name: "optionals", rule: expect("object.?spec.?missing.orValue(7) == 7 && object.spec.l[?9] == optional.none() && object.spec[?'n'].hasValue()")},
		{name: "lists", rule: expect("object.spec.l == [dyn(1), dyn('2'), dyn({'x': []})] && 1 in object.spec.l && (object.spec.l + [5]).size() == 4 && object.spec.l[2].x.size() == 0")},
		{name: "maps", rule: expect("object.metadata.labels == {'a': 'b'} && 'a' in object.metadata.labels && object.metadata.labels.all(k, k == 'a')")},
		{name: "two variables", rule: expect("object.metadata.labels.all(k, v, k == 'a' && v == 'b') && object.spec.l.exists(i, v, i == 0 && v == 1)")},
		{name: "libraries", rule: expect("quantity(object.spec.cpu).isLessThan(quantity('1')) && cidr('10.0.0.0/8').containsIP(object.spec.ip) && 'a-b'.split('-') == ['a', 'b']")},
		{name: "request", rule: expect("request.operation == 'CREATE' && request.namespace == 'n' && request.userInfo.groups.exists(g, g == 'dev') && !has(request.subResource)")},
		{name: "namespace", rule: expect("namespaceObject.metadata.labels['team'] == 'red' && !has(namespaceObject.metadata.annotations)")},
		{name: "false", rule: expect("object.spec.n > 1"), want: "failed expression: object.spec.n > 1"},
		{name: "all violations", rule: Expressions{Validations: []Validation{{Expression: "false", Message: " one "}, {Expression: "true"}, {Expression: "1 > 2", Message: "two"}}}, want: "one; two"},
		{name: "a composed message", rule: Expressions{Variables: []Named{{"n", "object.spec.n"}}, Validations: []Validation{{Expression: "variables.n == 2",
			Message: "no", MessageExpression: "'is ' + string(variables.n) + ' of ' + object.metadata.name"}}}, want: "is 1 of p"},
		{name: "a composed message that fails", rule: Expressions{Validations: []Validation{{Expression: "false", Message: "no", MessageExpression: "string(object.missing)"}}}, want: "no"},
		{name: "a composed message of two lines", rule: Expressions{Validations: []Validation{{Expression: "false", Message: "no", MessageExpression: "'a\\nb'"}}}, want: "no"},
		{name: "a condition that is false", rule: Expressions{Conditions: []Named{{"mine", "object.missing == 1"}, {"big", "object.spec.n > 5"}}, Validations: []Validation{{Expression: "false"}}}, want: "unmet big"},
		{name: "a condition that fails", rule: Expressions{Conditions: []Named{{"mine", "object.missing == 1"}}, Validations: []Validation{{Expression: "false"}}},
			want: `failure match condition mine: evaluating "object.missing == 1": no such key: missing`},
		{name: "a failure beside a violation", rule: Expressions{Validations: []Validation{{Expression: "object.missing == 1"}, {Expression: "false", Message: "no"}}},
			want: `no; failure evaluating "object.missing == 1": no such key: missing`},
		{name: "a variable that fails", rule: Expressions{Variables: []Named{{"n", "object.missing"}}, Validations: []Validation{{Expression: "variables.n == 1"}}},
			want: `failure evaluating "variables.n == 1": variable n: evaluating "object.missing": no such key: missing`},
		{name: "one expression costs too much", rule: Expressions{Variables: []Named{{"l", "[1,2,3,4,5,6,7,8,9,10]"}}, Validations: []Validation{
			{Expression: "variables.l.all(a, variables.l.all(b, variables.l.all(c, variables.l.all(d, variables.l.all(e, variables.l.all(f, a+b+c+d+e+f > 0))))))"},
			{Expression: "false", Message: "no"}}}, want: "no; failure evaluating"},
		{name: "unchanged", rule: expect("object.spec.n > 1"), old: `{"metadata":{"name":"q"},"spec":{"n": 1}}`, want: "unchanged"},
		{name: "changed", rule: expect("object.spec.n > 1"), old: `{"spec":{"n":0}}`, want: "failed expression: object.spec.n > 1"},
		{name: "appeared", rule: expect("object.spec.n > 1"), old: `{"spec":{}}`, want: "failed expression: object.spec.n > 1"},
		{name: "unchanged through a variable", rule: Expressions{Variables: []Named{{"n", "object.spec.n"}, {"m", "variables.n"}}, Validations: []Validation{{Expression: "variables.m > 1"}}}, old: `{"spec":{"n":1}}`, want: "unchanged"},
		{name: "changed through a variable", rule: Expressions{Variables: []Named{{"n", "object.spec.n"}, {"m", "variables.n"}}, Validations: []Validation{{Expression: "variables.m > 1", Message: "no"}}}, old: `{"spec":{"n":2}}`, want: "no"},
		{name: "other keys may change", rule: expect("object.metadata.labels['a'] == 'c'"), old: `{"metadata":{"labels":{"a":"b","c":"d"}}}`, want: "unchanged"},
		{name: "a judgement of the change", rule: expect("object.spec.n != oldObject.spec.n"), old: `{"spec":{"n":1}}`, want: "failed expression: object.spec.n != oldObject.spec.n"},
		{name: "a judgement of the request", rule: expect("request.operation == 'UPDATE'"), old: pod, want: "failed expression: request.operation == 'UPDATE'"},
	}
	review := Review{
		Object:    raw(t, pod),
		Request:   raw(t, `{"operation":"CREATE","namespace":"n","userInfo":{"username":"u","groups":["dev"]}}`),
		Namespace: &Namespace{Name: "n", Labels: map[string]string{"team": "red"}, Phase: "Active"},
	}
	compiler := newCompiler(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			review := review
			review.OldObject = raw(t, c.old)
			got := describe(compile(t, compiler, c.rule).Evaluate(t.Context(), &review))
			if got != c.want && (!strings.Contains(c.want, "failure") || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func expect(expression string) Expressions {
	return Expressions{Validations: []Validation{{Expression: expression}}}
}

// describe returns a verdict in words.
func describe(v Verdict) string {
	var all []string
	if v.Unmet != "" {
		all = append(all, "unmet "+v.Unmet)
	}
	for _, violation := range v.Violations {
		if violation.Unchanged {
			all = append(all, "unchanged")
		} else {
			all = append(all, violation.Message)
		}
	}
	for _, failure := range v.Failures {
		all = append(all, "failure "+failure.Error())
	}
	return strings.Join(all, "; ")
}

// TestBudget: all expressions of a rule share a budget, and none is evaluated once it is spent.
func TestBudget(t *testing.T) {
	costly := "!object.text.matches('^" + strings.Repeat("a", 40) + "')"
	var rule Expressions
	for range 40 {
		rule.Validations = append(rule.Validations, Validation{Expression: costly})
	}
	v := compile(t, newCompiler(t), rule).Evaluate(t.Context(), &Review{Object: raw(t, `{"text":"`+strings.Repeat("b", 400_000)+`"}`)})
	if len(v.Failures) != 1 || len(v.Violations) != 0 || !strings.Contains(v.Failures[0].Error(), "more than the budget") {
		t.Error(describe(v))
	}
}

// TestDeadline: when the caller has gone, no further expression is evaluated.
func TestDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := compile(t, newCompiler(t), Expressions{Validations: []Validation{{Expression: "false"}, {Expression: "false"}}})
	v := p.Evaluate(ctx, &Review{})
	if len(v.Violations) != 0 || len(v.Failures) != 1 || !errors.Is(v.Failures[0], context.Canceled) {
		t.Error(describe(v))
	}
}
