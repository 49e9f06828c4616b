package document

import (
	"encoding/json"
	"reflect"
	"testing"
)

// tree returns what Tree returns, read through Raw.
func tree(r Raw) any {
	switch r.Kind() {
	case Object:
		all := map[string]any{}
		for c := r.Children(); c.More(); {
			child := c.Next()
			all[child.Key()] = tree(child)
		}
		return all
	case Array:
		all := []any{}
		for c := r.Children(); c.More(); {
			all = append(all, tree(c.Next()))
		}
		return all
	case Text:
		return r.Text()
	case Number:
		return json.Number(r.Bytes())
	case True, False:
		return r.Kind() == True
	}
	return nil
}

func TestRaw(t *testing.T) {
	d := parse(t, `{"a":[1,-2.5e3,{"b":null,"\u0061\n":"\u00e9"},[],{}],"t":true,"f":false,"":"empty","s":"x"}`)
	root := d.Root().Raw()
	if got, want := tree(root), d.Root().Tree(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	list := root.Member("a")
	children := list.Children()
	if list.Size() != 5 || root.Size() != 5 || children.Next().Size() != 0 || list.Member("a").Exists() || root.Member("missing").Exists() {
		t.Error("sizes or members are wrong")
	}
	d.Root().Get("s").Set("edited")
	d.Root().Get("a").Set([]int{})
	if got := d.Root().Get("s").Raw().Text() + d.Root().Get("a").Raw().Member("a").Text() + d.Root().Get("new").Raw().Text(); got != "x" {
		t.Errorf("an edit is seen: %q", got)
	}
	if d.Root().Get("a").Raw().Size() != 5 {
		t.Error("what was sent is lost after an edit")
	}
}

// TestNoRaw: an absent value has nothing, and is equal to another absent one only.
func TestNoRaw(t *testing.T) {
	var none Raw
	children := none.Children()
	if none.Exists() || none.Kind() != 0 || none.Bytes() != nil || none.Text() != "" || none.Key() != "" || none.Size() != 0 || children.More() || children.Next().Exists() {
		t.Error("it has something")
	}
	d := parse(t, `{"a":{"x":1, "y":"\u0041"},"b":{"y":"A","x":1},"n":null}`).Root()
	a, b, null := d.Get("a").Raw(), d.Get("b").Raw(), d.Get("n").Raw()
	if !SameRaw(a, b) || SameRaw(a, none) || SameRaw(none, null) || !SameRaw(none, Raw{}) || SameRaw(a, null) {
		t.Error("equality is wrong")
	}
}
