package expression

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/validators/requests"
)

// many returns rules with the same expressions.
func many(n int, like Rule) (rules Rules) {
	like.Match.Requests = requests.Requests{APIGroups: []string{""}, Resources: []string{"configmaps"}, Operations: []string{"CREATE"}}
	for i := range n {
		like.Name = fmt.Sprint("r", i)
		rules = append(rules, like)
	}
	return rules
}

// likes are rules of different kinds.
var likes = map[string]Rule{
	"plain":                 {Validations: []Validation{{Expression: "object.spec.replicas <= 5", Message: "at most 5"}}},
	"with a message":        {Validations: []Validation{{Expression: "object.spec.replicas <= 5", MessageExpression: "'not ' + string(object.spec.replicas)"}}},
	"with variables":        {Variables: []Named{{"a", "object.spec.containers"}}, Validations: []Validation{{Expression: "variables.a.size() < 5"}}},
	"long":                  {Validations: []Validation{{Expression: "object.spec.x <= 5" + strings.Repeat(" && object.spec.x <= 5", 100)}}},
	"of many values":        {Validations: []Validation{{Expression: "object.spec.x in ['a'" + strings.Repeat(",'abcdefgh'", 500) + "]"}}},
	"with repetition":       {Validations: []Validation{{Expression: "object.spec.x.matches('^[a-z]{1,100}[0-9]{1,100}$')"}}},
	"with a repeated group": {Validations: []Validation{{Expression: `object.spec.x.matches("^([a-z]+[.]|\\d{3}){50}$")`}}},
	"with classes":          {Validations: []Validation{{Expression: `object.spec.x.matches('` + strings.Repeat(`\\pL`, 6) + `')`}}},
	"with an escape":        {Validations: []Validation{{Expression: `object.spec.x.find("[a-z]\x7b99}[0-9]{99}") == ''`}}},
	"with conditions":       {MatchConditions: []Named{{"a", "object.spec.x == 1"}}, Validations: []Validation{{Expression: "object.spec.y == 1"}}},
}

// TestMemoryOfRules: compiled rules take no more memory than what is estimated, and not much less.
func TestMemoryOfRules(t *testing.T) {
	for name, like := range likes {
		t.Run(name, func(t *testing.T) {
			rules, before := many(100, like), heapInUse()
			if problems := rules.check(field.NewPath("rules")); len(problems) > 0 {
				t.Fatal(problems)
			}
			took, estimated := heapInUse()-before-environments, len(rules)*(like.memory()+patternsOfRule(t, like))
			t.Logf("%d KiB a rule, estimated %d", took/len(rules)>>10, estimated/len(rules)>>10)
			if took > estimated*3/2 || took < estimated/5 {
				t.Errorf("they take %d KiB, and are estimated to take %d KiB", took>>10, estimated>>10)
			}
			runtime.KeepAlive(rules)
		})
	}
}

// patternsOfRule returns what the patterns of a rule are estimated to take, in bytes.
func patternsOfRule(t *testing.T, like Rule) int {
	c := newCompiler(t)
	c.patterns = &patternBudget{1 << 40, 1 << 40}
	compile(t, c, like.expressions())
	return 1<<40 - c.patterns.memory
}

// environments is about what the environments take that all rules share, in bytes.
const environments = 200 << 10

// heapInUse returns the bytes of the heap that are not garbage.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestTooManyRules: rules that would take too much memory are refused before one of them is compiled.
func TestTooManyRules(t *testing.T) {
	like := likes["plain"]
	most := maxMemory / like.memory()
	if _, problems := many(most, like).checkMemory(field.NewPath("rules")); len(problems) > 0 {
		t.Errorf("%d rules: %v", most, problems)
	}
	like.Validations = []Validation{{Expression: "this does not compile and has 25"}}
	problems := many(3000, like).check(field.NewPath("rules"))
	const want = "rules: Forbidden: 3000 rules with 3000 expressions would take about 50 MiB of memory when they are compiled, and may take 32 MiB; join"
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want) {
		t.Errorf("got %v, want %s", problems, want)
	}
	for _, c := range []struct {
		n               int
		expression, why string
	}{
		{4, `object.x.matches('` + strings.Repeat(`\\pL`, 1000) + `')`, "with the patterns up to this one, the rules would take more than 32 MiB of memory"},
		{15, `matches(object.x, '[a-z]\x7b1000}` + strings.Repeat(`[0-9]\x7b1000}`, 40) + `')`, "with the patterns up to this one, the rules would take more than 32 MiB of memory"},
		{1, `object.x.findAll('(?i)[` + strings.Repeat("B-𞥂", 600) + `]').size() > 0`, "the patterns up to this one take too long to read"},
		{1, `object.x.find(string('(?i)[` + strings.Repeat("B-𞥂", 600) + `]')) == ''`, "the patterns up to this one take too long to read"},
	} {
		problems := many(c.n, Rule{Validations: []Validation{{Expression: c.expression}}}).check(field.NewPath("rules"))
		if len(problems) == 0 || !strings.Contains(problems[0].Error(), "validations[0].expression: Forbidden: "+c.why) {
			t.Errorf("%.80s: %.300v, want %s", c.expression, problems, c.why)
		}
	}
}
