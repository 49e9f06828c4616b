package pattern

import (
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
)

// TestMeasure: the size is that of the compiled program, or a little more, whatever is repeated in the expression.
func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		expression string
		longest    int
	}{
		{``, 0},
		{`[a-z0-9 ]{1,1000}`, 1000},
		{`(?:(?:ab|c){10}[0-9]{0,3}){2,20}`, 460},
		{`.*[a-z]{0,127}Z.*`, Unlimited},
		{`a{500}b*`, Unlimited},
		{`(?i)straße|x{0}y?`, 6},
		{`(^$\b)*`, 0},
		{`\p{L}{1,40}(\pN+|é)`, Unlimited},
		{`\p{L}{1,40}`, 40},
		{`([a-zA-Z0-9]{2}-){100}[^a-z/]{0,40}`, 340},
		{`(ab|cd|ef|gh){90}`, 180},
		{`[0-9]{1,400}`, 400},
		{`[0-9]{1,494}`, 494},
		{`(((a{10}){10}){10})`, 1000},
		{`a{3,}`, Unlimited},
		{strings.Repeat(`(team|owner)-[a-z]{1,63}\.`, 10), 700},
	} {
		t.Run(c.expression, func(t *testing.T) {
			size, err := Measure(c.expression)
			if err != nil {
				t.Fatal(err)
			}
			tree, _ := syntax.Parse(c.expression, syntax.Perl)
			program, _ := syntax.Compile(tree.Simplify())
			if is := len(program.Inst); size.Instructions+2 < is || size.Instructions > 3*is {
				t.Errorf("%d instructions are measured as %d", is, size.Instructions)
			}
			if size.Longest != c.longest {
				t.Errorf("the longest text has %d characters, not %d", c.longest, size.Longest)
			}
			const n = 100
			kept, before := make([]*regexp.Regexp, n), heapInUse()
			for i := range kept {
				kept[i] = regexp.MustCompile(`\A(?:` + c.expression + `)\z`)
			}
			if took := (heapInUse() - before) / n; took > size.Bytes() || took < size.Bytes()/100 {
				t.Errorf("it takes %d bytes, and is measured as %d", took, size.Bytes())
			}
			runtime.KeepAlive(kept)
		})
	}
	if _, err := Measure(`(a`); err == nil {
		t.Error("(a has a size")
	}
}

// TestParsing: expressions that take long to parse are known before, and ordinary ones are not taken for such.
func TestParsing(t *testing.T) {
	for _, c := range []struct {
		expression  string
		least, most int // microseconds
	}{
		{`(?i)[B-𞥂]`, 10_000, 15_000},
		{`[B-𞥂]`, 0, 100},
		{`(?s-U)(?im:[B-\x{1e942}])`, 10_000, 15_000},
		{`(?i)[一-龥]+`, 2000, 6000},
		{`(?i)[а-яё0-9_-]+`, 60, 400},
		{`(?i)[a-z0-9]([-a-z0-9]*[a-z0-9])?`, 0, 300},
		{`(?i)[\x20-\x7e]`, 0, 200},
		{`(?P<i>[B-𞥂])`, 0, 100},
		{`\pL+`, 70, 150},
		{`(?i:\PL)`, 70, 200},
		{``, 0, 0},
	} {
		if is := Parsing(strings.Repeat(c.expression, 3)); is < 3000*c.least || is > 3000*c.most {
			t.Errorf("three times %s: %d ns, not %d to %d µs", c.expression, is, 3*c.least, 3*c.most)
		}
	}
}

// heapInUse returns the bytes of the heap that are not garbage.
func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
