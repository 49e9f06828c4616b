package document

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestPatchIsBounded: edits that exceed what could be stored are refused when they are made, for every kind of write.
// Dropped edits do not count.
func TestPatchIsBounded(t *testing.T) {
	half := strings.Repeat("x", maxPatch/2)
	for name, write := range map[string]func(v *Value, i int){
		"set":    func(v *Value, i int) { v.Get("a").Set(fmt.Sprint(half, i)) },
		"append": func(v *Value, _ int) { v.Get("l").Append(half) },
		"many small": func(v *Value, i int) {
			for j := range 1000 {
				v.Get(fmt.Sprint("m", i)).Get(fmt.Sprint(j)).Set(0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Parse([]byte(`{"l":[{"a":1}]}`))
			if err != nil {
				t.Fatal(err)
			}
			writes := 0
			for ; d.Err() == nil && writes < 100; writes++ {
				write(d.Root(), writes)
			}
			wrong, ok := errors.AsType[*field.Error](d.Err())
			if !ok || wrong.Type != field.ErrorTypeTooLong || writes < 2 || writes > 50 || !strings.Contains(wrong.Error(), "1572864 bytes") {
				t.Fatalf("after %d writes: %v", writes, d.Err())
			}
			if n := len(d.PatchJSON()); n > maxPatch {
				t.Errorf("the patch has %d bytes", n)
			}
			before := len(d.PatchJSON())
			write(d.Root(), writes)
			if len(d.PatchJSON()) != before {
				t.Error("it goes on growing")
			}
		})
	}
	d, _ := Parse([]byte(`{}`))
	for range 10 {
		_ = d.Try(func() error {
			d.Root().Get("a").Set(half)
			return errors.New("dropped")
		})
	}
	if d.Root().Get("a").Set(half); d.Err() != nil {
		t.Error(d.Err())
	}
}

// TestDecodingIsBounded: JSON that would take much more memory when decoded is refused before it is decoded.
func TestDecodingIsBounded(t *testing.T) {
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }
	for _, c := range []struct{ name, json, want string }{
		{"a list", `{"a":` + list(maxChildren) + `}`, ""},
		{"a longer list", `{"a":` + list(maxChildren+1) + `}`, "more than 10000 parts in one list or object"},
		{"many lists", `{"a":[` + list(9_000) + "," + list(9_000) + "," + list(9_000) + "," + list(9_000) + "," + list(9_000) + `]}`, ""},
		{"too many lists", `[` + strings.Repeat(list(9_000)+",", 5) + list(9_000) + `]`, "more than 50000 values"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Parse([]byte(c.json))
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(CheckText(c.json))
			if d, err := ParseText(c.json); (err != nil) != strings.Contains(c.want, "50000") {
				t.Error(d, err)
			}
			if As[any](d.Root()); c.want == "" && (text != "<nil>" || d.Err() != nil) ||
				c.want != "" && (!strings.Contains(text, c.want) || !strings.Contains(fmt.Sprint(d.Err()), c.want)) {
				t.Errorf("%s, %v, want %s", text, d.Err(), c.want)
			}
		})
	}
}
