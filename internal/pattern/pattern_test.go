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

// heapInUse returns the bytes of the heap that are not garbage.
func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
