package yamlnode

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	root := Parse([]byte("a:\n  b: &b\n  - {c: 1}\n  -\n    c: 2\nd: *b\n"))
	for path, want := range map[string]int{"": 1, "x": 1, "a": 1, "a b": 2, "a b 0": 3, "a b 1": 5, "a b 1 c": 5, "a b 2": 2, "a b x": 2, "a b 0 c x": 3, "d": 6, "d 1 c": 5} {
		if got := Line(root, strings.Fields(path)); got != want {
			t.Errorf("%q: line %d, want %d", path, got, want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "a: [\n"} {
		if Parse([]byte(text)) != nil || Line(nil, []string{"a"}) != 1 {
			t.Errorf("%q has a document", text)
		}
	}
}
