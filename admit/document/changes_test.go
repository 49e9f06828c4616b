package document

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestChanges: the changes of a Try are those of its own edits, each once, whatever was edited before it.
func TestChanges(t *testing.T) {
	const sent = `{"kept":1,"list":[{"n":"a"},{"n":"b"}],"map":{"x":"y","gone":null},"spaced":{ "k" : 1 }}`
	for _, c := range []struct {
		name string
		edit func(root *Value)
		want []string
	}{
		{"none", func(*Value) {}, nil},
		{"an equal value", func(root *Value) { root.Get("kept").Set(1) }, nil},
		{"added", func(root *Value) { root.At("new", "deep", "k").Set(1) }, []string{"new.deep.k:  > 1"}},
		{"replaced", func(root *Value) { root.At("map", "x").Set("z") }, []string{`map.x: "y" > "z"`}},
		{"replaced twice", func(root *Value) { root.Get("kept").Set(2); root.Get("kept").Set(3) }, []string{"kept: 1 > 3"}},
		{"removed", func(root *Value) { root.At("map", "x").Remove() }, []string{`map.x: "y" > `}},
		{"there and back", func(root *Value) { root.Get("kept").Set(2); root.Get("kept").Set(1) }, nil},
		{"added and removed", func(root *Value) { root.Get("new").Set(2); root.Get("new").Remove() }, nil},
		{"appended", func(root *Value) { root.Get("list").Append(3) }, []string{"list[2]:  > 3"}},
		{"appended, and read afterwards", func(root *Value) {
			root.Get("list").AppendTexts(TextMember{"n", "c"})
			root.Get("list").List()[0].Get("n").Set("z")
		}, []string{`list[2]:  > {"n":"c"}`, `list[0].n: "a" > "z"`}},
		{"inserted, and changed afterwards", func(root *Value) {
			list := root.Get("list")
			list.InsertBefore(list.List()[1], map[string]int{"k": 1}).Get("k").Set(2)
			list.List()[2].Get("n").Set("c")
		}, []string{`list[1]:  > {"k":2}`, `list[2].n: "b" > "c"`}},
		{"a new list", func(root *Value) { root.Get("new").Append(1); root.Get("new").Append(2) }, []string{"new[0]:  > 1", "new[1]:  > 2"}},
		{"a list for null", func(root *Value) { root.At("map", "gone").Append(1) }, []string{"map.gone[0]:  > 1"}},
		{"in what is replaced: already edited", func(root *Value) { root.At("map", "x").Set("z"); root.Get("map").Set(true) }, []string{`map: {"x":"z","gone":null} > true`}},
		{"in what was replaced", func(root *Value) { root.Get("map").Set(struct{}{}); root.At("map", "x").Set("z") },
			[]string{`map: {"x":"y","gone":null} > {"x":"z"}`}},
		{"after an earlier edit", func(root *Value) { root.Get("before").Set(2) }, []string{"before: 1 > 2"}},
		{"the whole", func(root *Value) { root.Set(1) }, []string{`object: {"kept":1,"list":[{"n":"a"},{"n":"b"}],"map":{"x":"y","gone":null},"spaced":{ "k" : 1 },"before":1} > 1`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, sent)
			d.Root().Get("before").Set(1)
			var got []string
			err := d.Try(func() error {
				c.edit(d.Root())
				for _, change := range d.Changes() {
					got = append(got, fmt.Sprintf("%s: %s > %s", change.Path, change.Was, change.Is))
				}
				return errors.New("dropped")
			})
			if err == nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if d.Changes() != nil || string(d.PatchJSON()) != `[{"op":"add","path":"/before","value":1}]` {
				t.Errorf("afterwards: %v, %s", d.Changes(), d.PatchJSON())
			}
		})
	}
}
