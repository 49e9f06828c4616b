package expression

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/admit/document"
)

// objectOf returns an object with a map and a list of n values.
func objectOf(n int) string {
	var data, list strings.Builder
	for i := range n {
		fmt.Fprintf(&data, `,"k%d":"v"`, i)
		fmt.Fprintf(&list, `,{"name":"v%d"}`, i)
	}
	return `{"data":{` + data.String()[1:] + `},"list":[` + list.String()[1:] + `]}`
}

// TestLoopsAreLinear: what a loop allocates grows as the number of its rounds does, whatever it looks up in each.
func TestLoopsAreLinear(t *testing.T) {
	compiler := newCompiler(t)
	for _, expression := range []string{
		"object.data.all(k, object.data[k].size() < 100)",
		"object.data.all(k, !(k + 'x' in object.data))",
		"object.list.all(v, object.list[0].name != v.name + 'x')",
		"object.list.all(v, object.list.size() < 500000)",
		"object.list.all(v, object.list != [1])",
		"object.data.all(k, object.data != {})",
		"object.list.all(v, (object.list + [v]).size() > 0)",
		"object.list.all(i, v, object.list[i] == v)",
	} {
		t.Run(expression, func(t *testing.T) {
			program := compile(t, compiler, expect(expression))
			allocated := func(n int) uint64 {
				object := raw(t, objectOf(n))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if v := program.Evaluate(t.Context(), &Review{Object: object}); describe(v) != "" {
					t.Fatal(describe(v))
				}
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc
			}
			if few, many := allocated(500), allocated(2000); many > 6*few {
				t.Errorf("%v bytes for 500, %v for 2,000", few, many)
			}
		})
	}
}

// TestLoopsTakeTheTimeOfTheirRounds: 48,000 rounds take about twelve times the CPU time of 4,000.
func TestLoopsTakeTheTimeOfTheirRounds(t *testing.T) {
	for _, expression := range []string{"object.data.all(k, object.data[k] != 'z')", "object.data.all(k, k in object.data && object.data[k] != 'z')"} {
		program := compile(t, newCompiler(t), expect(expression))
		took := func(times, keys int) time.Duration {
			object, start := raw(t, objectOf(keys)), cpu(t)
			for range times {
				if v := program.Evaluate(t.Context(), &Review{Object: object}); describe(v) != "" {
					t.Fatal(describe(v))
				}
			}
			return cpu(t) - start
		}
		if few, many := took(24, 4_000), took(2, 48_000); many > 4*few {
			t.Errorf("%s: 24 times 4,000 rounds take %v, 2 times 48,000 %v", expression, few, many)
		}
	}
}

// endless evaluates expressions that would take a second or minutes, and have no limit of cost that ends them in time.
var endless = map[string]string{
	"a loop of nothing":     "'" + strings.Repeat("a ", 350) + "'.split(' ').all(a, '" + strings.Repeat("a ", 350) + "'.split(' ').all(b, true))",
	"a loop":                "object.list.all(a, object.list != oldObject.list)",
	"a loop of no document": "'" + strings.Repeat("a ", 1000) + "'.split(' ').all(a, object.list != oldObject.list)",
	"a variable":            "variables.it",
}

// TestEndsWithItsContext: when the time of a review is over or the caller has gone, an evaluation ends, also in the middle
// of an expression, and says why.
func TestEndsWithItsContext(t *testing.T) {
	object, old := raw(t, objectOf(30_000)), raw(t, strings.Replace(objectOf(30_000), `"v29999"`, `"other"`, 1))
	for name, expression := range endless {
		t.Run(name, func(t *testing.T) {
			program := compile(t, newCompiler(t), Expressions{Variables: []Named{{"it", endless["a loop"]}}, Validations: []Validation{{Expression: expression}}})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			verdict := program.Evaluate(ctx, &Review{Object: object, OldObject: old})
			if len(verdict.Failures) != 1 || !errors.Is(verdict.Failures[0], context.DeadlineExceeded) {
				t.Errorf("got %s", describe(verdict))
			}
			if len(program.turns) != 0 {
				t.Error("a turn was kept")
			}
		})
	}
}

// TestLongEvaluationsTakeTurns: one that has had its share waits, and ends with its context while it waits. A short one
// does not wait.
func TestLongEvaluationsTakeTurns(t *testing.T) {
	text := func(size int) string { return `{"text":"` + strings.Repeat("a", size) + `"}` }
	for expression, objects := range map[string][]string{
		"object.list.all(v, v.name != '')":                      {objectOf(100), objectOf(30_000)},
		"lists.range(object.list.size()).all(i, i >= 0)":        {objectOf(100), objectOf(30_000)},
		"!object.text.matches('a+z')":                           {text(5_000), text(100_000)},
		"object.text.replace('a', 'bbbb').startsWith('bbbb')":   {text(5_000), text(100_000)},
		"object.text.substring(7) != '' && object.text != 'aa'": {text(5_000), text(50_000)},
	} {
		t.Run(expression, func(t *testing.T) { takesTurns(t, expression, raw(t, objects[0]), raw(t, objects[1])) })
	}
}

func takesTurns(t *testing.T, expression string, short, long document.Raw) {
	program := compile(t, newCompiler(t), expect(expression))
	synctest.Test(t, func(t *testing.T) {
		program.turns = newTurns()
		for range cap(program.turns) {
			program.turns.take(t.Context())
		}
		if v := program.Evaluate(t.Context(), &Review{Object: short}); describe(v) != "" {
			t.Error(describe(v))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan Verdict, 1)
		go func() { ended <- program.Evaluate(ctx, &Review{Object: long}) }()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("a long one does not wait")
		}
		cancel()
		if v := <-ended; len(v.Failures) != 1 || !errors.Is(v.Failures[0], context.Canceled) {
			t.Error(describe(v))
		}
		program.turns.giveBack()
		if v := program.Evaluate(t.Context(), &Review{Object: long}); describe(v) != "" {
			t.Error(describe(v))
		}
		if len(program.turns) != cap(program.turns)-1 {
			t.Error("a turn was kept")
		}
	})
}
