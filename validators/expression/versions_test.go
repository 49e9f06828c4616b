package expression

import (
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestOlderVersions: what older versions of Kubernetes do not compile, or understand otherwise, is a warning, and nothing
// else is.
func TestOlderVersions(t *testing.T) {
	for _, c := range []struct{ name, variable, expression, want string }{
		{"ordinary", "object.?spec.n", "object.spec.?replicas.orValue(1) < 5 && variables.it.orValue(0) < 2", ""},
		{"a text with a backtick", "1", "object.a != '`' && object['x-y'] != \"`\"", ""},
		{"first or nothing", "1", "object.?a.or(object.?b).orValue(1) == 1 && object.?a[?'c'].orValue('') == ''", ""},
		{"of an unknown type", "1", "has(object.a) ? object.a.orValue(1) == 1 : true",
			"rules[0].validations[0].expression: line 1 column 33: orValue of a value that is not optional has no result; before Kubernetes 1.37 it is the value itself."},
		{"of a variable", "object.a", "variables.it.orValue(1) == 1", "orValue of a value that is not optional"},
		{"in the variable", "object.a.orValue(1)", "variables.it == 1", "rules[0].variables[0].expression: line 1 column 17: orValue of a value"},
		{"or", "1", "object.a.or(object.?b).hasValue()", "or of a value that is not optional"},
		{"a name in backticks", "1", "object.spec.`x-y` == 1", "rules[0].validations[0].expression: names in backticks are not known before Kubernetes 1.37; write object['x-y']"},
		{"a format", "1", "format.named('dns1123Label').hasValue()", "needs Kubernetes 1.31; 1.30 says: line 1 column 1: undeclared reference to 'format'"},
		{"two variables", "1", "object.all(k, v, k != v)", "needs Kubernetes 1.32"},
		{"semantic versions", "1", "semver('1.2.3').isLessThan(semver('2.0.0'))", "needs Kubernetes 1.33"},
		{"lists", "1", "[3, 1].sort() == [1, 3]", "needs Kubernetes 1.34"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Rules{{Variables: []Named{{"it", c.variable}}, Validations: []Validation{{Expression: c.expression}}}}
			r[0].compiled = &compiledRule{program: compileAt(t, r[0].expressions(), field.NewPath("rules").Index(0))}
			got := r.versionNotes(field.NewPath("rules"))
			if text := strings.Join(got, "\n"); c.want == "" && len(got) > 0 || !strings.Contains(text, c.want) || len(got) > 1 {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

func compileAt(t *testing.T, rule Expressions, at *field.Path) *Program {
	t.Helper()
	p, problems := newCompiler(t).Compile(rule, at)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// TestNoSuchOverload: the error of a function that got a value of another type names the function and its place.
func TestNoSuchOverload(t *testing.T) {
	types.LabelErrNode(1<<40, types.NoSuchOverloadErr()) // as an earlier evaluation may have done
	for _, c := range []struct{ expression, want string }{
		{"object.a.orValue(1) == 1", "line 1 column 17: orValue: no such overload: the value is not optional; write object.?a.orValue(b)"},
		{"object.a.or(object.?b).hasValue()", "line 1 column 12: or: no such overload"},
		{"object.a ==\n 1 && object.s < 5", "line 2 column 16: <: no such overload"},
		{"object.a.size() > 1", "line 1 column 14: size: no such overload"},
		{"object.a.startsWith('a')", "line 1 column 20: startsWith: no such overload"},
		{"object.a + object.s == 1", "line 1 column 10: +: no such overload"},
		{"object.a ? true : false", "line 1 column 10: ?"},
		{"!object.a", "line 1 column 1: !: no such overload"},
		{"object.a && true", "no such overload"},
		{"variables.it == 1", "variable it: evaluating \"object.s - 1\": line 1 column 10: -: no such overload"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			program := compile(t, newCompiler(t), Expressions{Variables: []Named{{"it", "object.s - 1"}}, Validations: []Validation{{Expression: c.expression}}})
			for range 2 { // the library keeps the first place of one of its errors
				if got := describe(program.Evaluate(t.Context(), &Review{Object: raw(t, `{"a":1,"s":"x"}`)})); !strings.Contains(got, c.want) {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			}
		})
	}
}
