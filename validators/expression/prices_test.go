package expression

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/decls"

	"usher.dev/usher/test/costs"
	"usher.dev/usher/test/seed"
)

// TestCallsAreBounded: the most expensive call of each function, on the texts of a tenant, takes no more than it was to take,
// within a wide margin, as it is refused otherwise before it is made.
func TestCallsAreBounded(t *testing.T) {
	compiler := newCompiler(t)
	for _, c := range costs.Calls() {
		program := compile(t, compiler, expect(c.Expression))
		for _, size := range []int{27 << 10, 1 << 20} {
			review := Review{Object: raw(t, c.Object(size))}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpu(t)
			said := describe(program.Evaluate(t.Context(), &review))
			took, counted := cpu(t)-start, time.Duration(review.reader.spent)
			runtime.ReadMemStats(&after)
			made := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%v of CPU, %v counted, %d MiB: %.200s on %d KiB %.80s", took, counted, made, c.Expression, size>>10, said)
			if took > 5*(counted+20*time.Millisecond) && !seed.Race {
				t.Errorf("%.200s on %d KiB: %v of CPU, but only %v counted", c.Expression, size>>10, took, counted)
			}
			if made > 5*(maxMade+maxNeeds)>>20 && !seed.Race && !strings.HasPrefix(c.Expression, "lists.range(1000)") {
				t.Errorf("%.200s on %d KiB makes %d MiB", c.Expression, size>>10, made)
			}
		}
	}
}

// TestOrdinaryCallsAreMade: calls that take little are not refused.
func TestOrdinaryCallsAreMade(t *testing.T) {
	for _, c := range []struct {
		expression, x string
		size          int
	}{
		{"object.data.x.findAll('[0-9]+').size() > 0", "a 12345 ", 4 << 10},
		{"object.data.x.findAll('https?://[^ ]+', 100).size() == 100", "see https://example.org/a ", 10 << 10},
		{"object.data.x.findAll('[a-z]+@[a-z]+').size() > 0", "jane@example (Jane) ", 50 << 10},
		{"object.data.x.findAll('^see|nowhere').size() == 1", "see https://example.org/a ", 100 << 10},
		{"sets.contains(object.data.x.split(','), object.data.x.split(','))", "name,", 4_500},
		{"object.data.x.indexOf('-----END CERTIFICATE REQUEST---') < 0 && object.data.x.lastIndexOf('-----END CERTIFICATE REQUEST---') < 0", "-----BEGIN", 900_000},
	} {
		said := describe(compile(t, newCompiler(t), expect(c.expression)).Evaluate(t.Context(), &Review{Object: raw(t, costs.Call{X: c.x}.Object(c.size))}))
		if said != "" {
			t.Errorf("%s on %d bytes: %s", c.expression, c.size, said)
		}
	}
}

// TestFoldedLettersCostMore: a letter outside ASCII that is compared in all its cases.
func TestFoldedLettersCostMore(t *testing.T) {
	x := costs.Call{X: "а"}.Object(1000)
	counted := func(pattern string) int {
		review := Review{Object: raw(t, x)}
		if v := compile(t, newCompiler(t), expect("!object.data.x.matches('"+pattern+"')")).Evaluate(t.Context(), &review); describe(v) != "" {
			t.Fatal(describe(v))
		}
		return review.reader.work
	}
	for pattern, times := range map[string]int{"(?i)ab|cd": 1, "бд|гж": 1, "(?i)бд|гж": 2, "(?i)ab|(гж)*x": 2} {
		if got, want := counted("^.*(?:"+pattern+")"), counted("^.*(?:"+strings.TrimPrefix(pattern, "(?i)")+")"); got < want*times*9/10 || got > want*times {
			t.Errorf("%s: %d ns, and %d without (?i)", pattern, got, want)
		}
	}
}

// scannedNames are the functions that look at their arguments once or twice, or are no calls for the library.
var scannedNames = strings.Fields("_<_ _<=_ _>_ _>=_ in _in_ startsWith endsWith getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours " +
	"getMilliseconds getMinutes getMonth getSeconds getHost getHostname getPort getScheme format.named _[_] _?._ _[?_] _?_:_ _&&_ _||_")

// TestAllFunctionsHavePrices: a function of a newer Kubernetes needs a price, too.
func TestAllFunctionsHavePrices(t *testing.T) {
	for name, f := range newCompiler(t).env.Functions() {
		dependent := slices.ContainsFunc(f.OverloadDecls(), func(o *decls.OverloadDecl) bool {
			return len(o.ArgTypes()) > 0 && !strings.HasPrefix(o.ArgTypes()[0].TypeName(), "kubernetes.authorization.") // there is no authorizer
		})
		if dependent && prices[name] == nil && !constant[name] && !slices.Contains(scannedNames, name) {
			t.Errorf("%s is in none of prices, constant and scannedNames", name)
		}
	}
}
