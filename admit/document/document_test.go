package document

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"usher.dev/usher/admit/document/internal/json"
	"usher.dev/usher/test/seed"
)

func parse(t *testing.T, raw string) *Document {
	t.Helper()
	d, err := Parse([]byte(raw))
	if err != nil {
		t.Fatalf("Parse(%s): %v", raw, err)
	}
	return d
}

// patched applies the document's patch to raw with the library that the API server uses.
func patched(t *testing.T, d *Document, raw string) string {
	t.Helper()
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	ops, err := stdjson.Marshal(d.Patch())
	if err != nil {
		t.Fatal(err)
	}
	if d.PatchJSON() != nil || string(ops) != "null" {
		same(t, "PatchJSON", string(d.PatchJSON()), string(ops))
	}
	if got, want := string(d.AppendPatch([]byte("before"))), "before"+string(d.PatchJSON()); got != want {
		t.Errorf("AppendPatch:\n got %s\nwant %s", got, want)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatalf("%s: %v", ops, err)
	}
	if len(patch) == 0 {
		return raw
	}
	after, err := patch.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("%s does not apply to %s: %v", ops, raw, err)
	}
	return string(after)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if !json.Same([]byte(got), []byte(want)) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func patchText(d *Document) string {
	text := []string{}
	for _, op := range d.Patch() {
		line := op.Operation + " " + op.Path
		if op.Value != nil {
			line += fmt.Sprintf(" %s", op.Value)
		}
		text = append(text, line)
	}
	return strings.Join(text, "\n")
}

// Each case: what was sent, what a step does, the expected operations, and the resulting object.
func TestPatch(t *testing.T) {
	cases := []struct {
		name, raw   string
		edit        func(*Value)
		patch, want string
	}{
		{"missing parents are made", `{}`,
			func(v *Value) { v.At("metadata", "labels", "a").Set("b") },
			`add /metadata {"labels":{"a":"b"}}`, `{"metadata":{"labels":{"a":"b"}}}`},
		{"a null parent is replaced", `{"metadata":{"labels":null}}`,
			func(v *Value) { v.At("metadata", "labels", "a").Set("b") },
			`replace /metadata/labels {"a":"b"}`, `{"metadata":{"labels":{"a":"b"}}}`},
		{"edits to one place merge", `{"metadata":{}}`,
			func(v *Value) {
				v.At("metadata", "labels", "a").Set("b")
				v.At("metadata", "labels", "c").Set("d")
				v.At("metadata", "labels", "a").Set("e")
			},
			`add /metadata/labels {"a":"e","c":"d"}`, `{"metadata":{"labels":{"a":"e","c":"d"}}}`},
		{"what is there already is no edit", `{"a":{"x":1, "y":"\u0041"}}`,
			func(v *Value) {
				v.Get("a").Set(map[string]any{"y": "A", "x": 1})
				v.At("a", "y").Set("A")
			}, ``, `{"a":{"x":1,"y":"A"}}`},
		{"there and back is no edit", `{"a":"1","l":[1]}`,
			func(v *Value) {
				v.Get("a").Set("2")
				v.Get("a").Set("1")
				v.Get("b").Set("2")
				v.Get("b").Remove()
				v.Get("l").Append(2).Remove()
				v.At("new", "parent").Set(1)
				v.At("new", "parent").Remove()
			}, ``, `{"a":"1","l":[1]}`},
		{"there and back in a null parent", `{"a":null}`,
			func(v *Value) {
				v.At("a", "b").Set("2")
				v.At("a", "b").Remove()
			}, ``, `{"a":null}`},
		{"removing what is not there is no edit", `{"a":{}}`,
			func(v *Value) { v.At("a", "b", "c").Remove() }, ``, `{"a":{}}`},
		{"keys are escaped", `{"m":{"a/b~c":"1","ü\"\\":"x","\u0061\u002fz":"0"}}`,
			func(v *Value) {
				v.At("m", "a/b~c").Set("2")
				v.At("m", "ü\"\\").Remove()
				v.At("m", "a/z").Set("1")
				v.At("m", "~1").Set("é/")
			},
			"replace /m/a~1b~0c \"2\"\nremove /m/ü\"\\\nreplace /m/a~1z \"1\"\nadd /m/~01 \"é/\"",
			`{"m":{"a/b~c":"2","a/z":"1","~1":"é/"}}`},
		{"an insert does not shift another edit", `{"c":[{"n":"a","future":1},{"n":"b","future":2}]}`,
			func(v *Value) {
				elements := collect(v.Get("c"))
				v.Get("c").InsertBefore(elements[0], map[string]string{"n": "side"})
				elements[0].Get("n").Set("A")
				v.Get("c").InsertBefore(elements[1], map[string]string{"n": "mid"})
				elements[1].Get("n").Set("B")
			},
			"add /c/0 {\"n\":\"side\"}\nreplace /c/1/n \"A\"\nadd /c/2 {\"n\":\"mid\"}\nreplace /c/3/n \"B\"",
			`{"c":[{"n":"side"},{"n":"A","future":1},{"n":"mid"},{"n":"B","future":2}]}`},
		{"removing elements", `{"c":[0,1,2,3]}`,
			func(v *Value) {
				elements := collect(v.Get("c"))
				elements[0].Remove()
				elements[2].Remove()
				elements[3].Set(4)
				v.Get("c").Append(5)
			},
			"remove /c/0\nremove /c/1\nreplace /c/1 4\nadd /c/- 5", `{"c":[1,4,5]}`},
		{"at the beginning", `{"l":[1,2],"m":[],"n":[0]}`,
			func(v *Value) {
				v.Get("l").AppendTexts(TextMember{"n", "last"})
				for _, list := range []string{"l", "m", "none"} {
					v.Get(list).PrependTexts(TextMember{"n", "a"})
					v.Get(list).Prepend("b")
				}
				collect(v.Get("n"))[0].Set(1)
				v.Get("n").Prepend(2)
				v.Get("n").Prepend(3)
			},
			`add /l/0 {"n":"a"}` + "\n" + `add /l/1 "b"` + "\n" + `add /l/- {"n":"last"}` + "\n" + `add /m/0 {"n":"a"}` + "\n" + `add /m/1 "b"` + "\n" +
				`add /none [{"n":"a"},"b"]` + "\nadd /n/0 2\nadd /n/1 3\nreplace /n/2 1",
			`{"l":[{"n":"a"},"b",1,2,{"n":"last"}],"m":[{"n":"a"},"b"],"n":[2,3,1],"none":[{"n":"a"},"b"]}`},
		{"a new list", `{"spec":{"tolerations":null}}`,
			func(v *Value) {
				v.At("spec", "tolerations").Append(1)
				v.At("spec", "tolerations").Append(2)
				v.At("spec", "env").Append("x").Set("y")
			},
			"replace /spec/tolerations [1,2]\nadd /spec/env [\"y\"]", `{"spec":{"tolerations":[1,2],"env":["y"]}}`},
		{"editing beneath what was set", `{"a":{"b":1}}`,
			func(v *Value) {
				v.Get("a").Set(map[string]any{"c": []int{1}})
				v.At("a", "c").Append(2)
				v.At("a", "d").Set(true)
			},
			`replace /a {"c":[1,2],"d":true}`, `{"a":{"c":[1,2],"d":true}}`},
		{"revived after removal", `{"a":{"b":1}}`,
			func(v *Value) {
				v.Get("a").Remove()
				v.At("a", "c").Set(2)
			}, `replace /a {"c":2}`, `{"a":{"c":2}}`},
		{"the document as a whole", `{"a":1}`, func(v *Value) { v.Set([]int{1}) }, `replace  [1]`, `[1]`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := parse(t, c.raw)
			c.edit(d.Root())
			if got := patchText(d); got != c.patch {
				t.Errorf("patch:\n%s\nwant:\n%s", got, c.patch)
			}
			same(t, "reads after the edits", string(d.Bytes()), c.want)
			if c.name != "the document as a whole" { // the library knows no root path
				same(t, "the API server stores", patched(t, d, c.raw), c.want)
			}
		})
	}
}

func collect(v *Value) []*Value {
	var all []*Value
	for e := range v.Elements() {
		all = append(all, e)
	}
	return all
}

func TestReadsSeeEdits(t *testing.T) {
	d := parse(t, `{"a":[{"x":1},null],"s":"\u00fc","n":null}`)
	root := d.Root()
	if got := root.Get("s").Text(); got != "ü" {
		t.Errorf("Text = %q", got)
	}
	first := collect(root.Get("a"))[0]
	first.Get("x").Set(2)
	if got := As[[]map[string]int](root.Get("a")); !reflect.DeepEqual(got, []map[string]int{{"x": 2}, nil}) {
		t.Errorf("As = %v", got)
	}
	root.Get("a").InsertBefore(first, "new")
	if got := first.Get("x").Path().String(); got != "a[1].x" {
		t.Errorf("Path = %s", got)
	}
	if got := root.At("m", "a.b/c").Path().String(); got != "m[a.b/c]" {
		t.Errorf("Path = %s", got)
	}
	names := ""
	for name := range root.Members() {
		names += name
	}
	if names != "asn" || root.Get("n").Exists() || root.Get("zz").Exists() || !root.Get("s").Exists() {
		t.Errorf("members %q, or Exists is wrong", names)
	}
	if d.Err() != nil {
		t.Error(d.Err())
	}
}

func TestHasElement(t *testing.T) {
	d := parse(t, `{"l":[{"name":"a"},{"name":"\u0062"},{"name":5},"x",null,{"n\u0061me":"c"}],"n":null}`)
	l := d.Root().Get("l")
	ask := func(want string) {
		t.Helper()
		got := ""
		for _, name := range []string{"a", "b", "c", "d", "5"} {
			if l.HasElement("name", name) {
				got += name
			}
		}
		if got != want {
			t.Errorf("has %q, want %q", got, want)
		}
	}
	ask("abc")
	added := l.Append(map[string]string{"name": "d"})
	ask("abcd")
	added.Remove()
	collect(l)[0].Get("name").Set("z")
	ask("bc")
	if d.Root().Get("n").HasElement("name", "a") || d.Root().Get("none").HasElement("name", "a") || d.Err() != nil {
		t.Error("found in nothing")
	}
}

func TestManyKeys(t *testing.T) {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `"key-%d":%d,`, i, i)
	}
	if d := parse(t, "{"+b.String()+`"last":1}`); As[int](d.Root().Get("key-150")) != 150 {
		t.Error("a member was not found")
	}
	for _, again := range []string{"key-3", "key-150", `\u006bey-3`} {
		if _, err := Parse([]byte("{" + b.String() + `"` + again + `":1}`)); err == nil || !strings.Contains(err.Error(), "duplicate key") {
			t.Errorf("%s twice: %v", again, err)
		}
	}
	for raw, twice := range map[string]bool{`{"a\/b":1,"a/b":2}`: true, `{"a/b":1,"a\/b":2}`: true, `{"\"":1,"\u0022":2}`: true, `{"\"":1,"\"":2}`: true, `{"\"":1,"\\":2}`: false,
		`{"\/":1,"b":2,"/":3}`: true, `{"b":1,"\/":2,"\u0062":3}`: true, `{"\/":1,"b":2,"c":3}`: false} {
		if _, err := Parse([]byte(raw)); (err != nil) != twice {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// A document that is made to be expensive is refused, or its lists are.
func TestBounds(t *testing.T) {
	if _, err := Parse([]byte("[" + strings.Repeat("0,", MaxValues) + "0]")); err == nil || !strings.Contains(err.Error(), "more than 500000 values") {
		t.Errorf("half a million values: %v", err)
	}
	for name, read := range map[string]func(*Value){
		"elements": func(v *Value) { collect(v) },
		"decoding": func(v *Value) { As[[]struct{}](v) },
		"append":   func(v *Value) { v.Append(1) },
	} {
		d := parse(t, `{"l":[`+strings.Repeat("{},", maxChildren)+`{}]}`)
		read(d.Root().Get("l"))
		if d.Err() == nil || !strings.Contains(d.Err().Error(), "l: Invalid value: has more than 10000 parts") || d.Patch() != nil {
			t.Errorf("%s: %v", name, d.Err())
		}
	}
}

func TestSubOfWhatWasSet(t *testing.T) {
	d := parse(t, `{"a":{"b":1}}`)
	d.Root().Get("a").Set(2)
	if got := string(d.Root().Get("a").Sub().Bytes()); got != `{"b":1}` {
		t.Errorf("as it was sent: %s", got)
	}
	d.Root().Get("a").Remove()
	if sub := d.Root().Get("a").Sub(); sub != nil && string(sub.Bytes()) != `{"b":1}` {
		t.Errorf("as it was sent: %s", sub.Bytes())
	}
}

func TestWrongTypes(t *testing.T) {
	raw := `{"o":{},"a":[],"s":"x","n":5}`
	cases := map[string]func(*Value){
		"o: Invalid value: must be an array, not an object":                func(v *Value) { v.Get("o").Append(1) },
		"a: Invalid value: must be an object, not an array":                func(v *Value) { v.At("a", "b").Set(1) },
		"n: Invalid value: must be an object, not a number":                func(v *Value) { v.At("n", "b").Set(1) },
		"o: Invalid value: must be a string, not an object":                func(v *Value) { v.Get("o").Text() },
		"s: Invalid value: has a string where the type has something else": func(v *Value) { As[int](v.Get("s")) },
		"s: Invalid value: must be an array, not a string":                 func(v *Value) { collect(v.Get("s")) },
		"Invalid value: has a string at s where the type has something else": func(v *Value) {
			As[struct {
				S int `json:"s"`
			}](v)
		},
	}
	for want, read := range cases {
		d := parse(t, raw)
		read(d.Root())
		if d.Err() == nil || !strings.HasSuffix(d.Err().Error(), want) {
			t.Errorf("got %v, want %s", d.Err(), want)
			continue
		}
		d.Root().Get("s").Set("later")
		if d.Patch() != nil || d.Edits() != 0 {
			t.Errorf("%s: a write after the error was recorded: %s", want, patchText(d))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		``:                         "ends too early",
		`{"a":1,"a":2}`:            `duplicate key "a"`,
		`{"a":{"b":1,"\u0062":2}}`: `duplicate key "b"`,
		`{"a":1} {}`:               "something follows",
		`{"a":1`:                   "ends too early",
		`{"a":01}`:                 "not JSON",
		"{\"a\":\"\xff\"}":         "UTF-8",
		`{a:1}`:                    "not JSON",
	} {
		if _, err := Parse([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", raw, err, want)
		}
	}
}

func TestTryKeepsAllOrNone(t *testing.T) {
	raw := `{"a":{"x":1},"l":[1,2]}`
	d := parse(t, raw)
	kept := d.Root().At("a", "y")
	kept.Set("before")
	before := string(d.Bytes())
	fail := errors.New("no")
	err := d.Try(func() error {
		elements := collect(d.Root().Get("l"))
		d.Root().Get("l").InsertBefore(elements[1], "in")
		d.Root().Get("l").InsertBefore(elements[0], "in")
		elements[1].Remove()
		kept.Set("after")
		d.Root().At("new", "place").Set(1)
		d.Root().Get("a").Remove()
		d.Root().At("a", "again").Set(1)
		return d.Try(func() error { d.Root().Get("z").Set(1); return fail })
	})
	if !errors.Is(err, fail) || string(d.Bytes()) != before || d.Edits() != 1 {
		t.Errorf("after a failed Try: %v, %d edits\n got %s\nwant %s", err, d.Edits(), d.Bytes(), before)
	}
	same(t, "stored", patched(t, d, raw), before)
	if err := d.Try(func() error { kept.Set("kept"); return nil }); err != nil {
		t.Fatal(err)
	}
	same(t, "stored", patched(t, d, raw), `{"a":{"x":1,"y":"kept"},"l":[1,2]}`)
}

func TestSub(t *testing.T) {
	d := parse(t, `{"request":{"object":{"a":1},"oldObject":null}}`)
	sub := d.Root().At("request", "object").Sub()
	sub.Root().Get("a").Set(2)
	if got := patchText(sub); got != "replace /a 2" {
		t.Errorf("patch %s", got)
	}
	if d.Root().At("request", "oldObject").Sub() != nil || d.Root().At("request", "none").Sub() != nil {
		t.Error("a document of nothing")
	}
}

// TestRandomEdits makes random documents and edits, and makes the same edits on plain Go values.
func TestRandomEdits(t *testing.T) {
	random := seed.Random(t)
	for n := range 3000 {
		editAtRandom(t, random, fmt.Sprintf("case %d", n))
		if t.Failed() {
			return
		}
	}
}

func editAtRandom(t *testing.T, r *rand.Rand, what string) {
	t.Helper()
	model := map[string]any{}
	for range r.IntN(5) {
		model[randomKey(r)] = randomJSON(r, 4)
	}
	raw, _ := stdjson.Marshal(model)
	d := parse(t, string(raw))
	for range r.IntN(12) {
		if r.IntN(3) > 0 {
			randomEdit(r, d.Root(), model)
			continue
		}
		undone := copyOf(t, model)
		_ = d.Try(func() error {
			for range 1 + r.IntN(4) {
				randomEdit(r, d.Root(), undone)
			}
			return errors.New("undo it")
		})
	}
	want, _ := stdjson.Marshal(model)
	same(t, what+": reads", string(d.Bytes()), string(want))
	same(t, what+": stored", patched(t, d, string(raw)), string(want))
	again := parse(t, string(d.Bytes()))
	if len(again.Patch()) > 0 {
		t.Errorf("%s: a fresh document has a patch", what)
	}
	patch := d.PatchJSON()
	text := string(patch)
	d.Release() // the next document takes its memory
	same(t, what+": the patch of a released document", string(patch), text)
	same(t, what+": a document while another was released", string(again.Bytes()), string(want))
	again.Release()
}

func copyOf(t *testing.T, model map[string]any) (c map[string]any) {
	t.Helper()
	raw, _ := stdjson.Marshal(model)
	if err := stdjson.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

var keys = []string{"a", "b", "labels", "a/b", "~", "~1", "ü", "\"", "", "x.y/z", "日本"}

func randomKey(r *rand.Rand) string { return keys[r.IntN(len(keys))] }

func randomJSON(r *rand.Rand, depth int) any {
	switch n := r.IntN(7); {
	case n == 0:
		return nil
	case n <= 2 && depth > 0:
		object := map[string]any{}
		for range r.IntN(4) {
			object[randomKey(r)] = randomJSON(r, depth-1)
		}
		return object
	case n <= 4 && depth > 0:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, randomJSON(r, depth-1))
		}
		return list
	case n == 5:
		return float64(r.IntN(100))
	}
	return randomKey(r)
}

// randomEdit descends both trees by the same steps and makes one edit in both.
func randomEdit(r *rand.Rand, v *Value, model any) any {
	switch m := model.(type) {
	case map[string]any:
		key := randomKey(r)
		below, there := m[key]
		switch n := r.IntN(4); {
		case n == 0:
			v.Get(key).Remove()
			delete(m, key)
		case n == 1 || !there:
			m[key] = randomJSON(r, 2)
			v.Get(key).Set(m[key])
		default:
			m[key] = randomEdit(r, v.Get(key), below)
		}
		return m
	case []any:
		return randomListEdit(r, v, m)
	case nil:
		if r.IntN(2) == 0 {
			v.Append("appended")
			return []any{"appended"}
		}
		v.At("made", "here").Set(1)
		return map[string]any{"made": map[string]any{"here": 1.0}}
	}
	v.Set("changed")
	return "changed"
}

func randomListEdit(r *rand.Rand, v *Value, m []any) any {
	if len(m) == 0 {
		v.Append("first")
		return []any{"first"}
	}
	if r.IntN(4) == 0 {
		v.AppendTexts(TextMember{"key", "text"})
		return append(m, map[string]any{"key": "text"})
	}
	if r.IntN(4) == 0 {
		at := len(slices.Collect(existing(v.children[:v.front])))
		v.PrependTexts(TextMember{"key", "front"})
		return slices.Insert(slices.Clone(m), at, any(map[string]any{"key": "front"}))
	}
	i := r.IntN(len(m))
	element := collect(v)[i]
	switch n := r.IntN(4); {
	case n == 0 && len(m) > 1: // a null that became a list and lost all elements is null again; plain Go values cannot tell
		element.Remove()
		return append(append([]any{}, m[:i]...), m[i+1:]...)
	case n == 1:
		added := randomJSON(r, 2)
		v.InsertBefore(element, added)
		return append(append(append([]any{}, m[:i]...), added), m[i:]...)
	case n == 2:
		v.Append("last")
		return append(m, "last")
	}
	m[i] = randomEdit(r, element, m[i])
	return m
}

// FuzzParse: what is accepted is valid JSON for encoding/json, too, and has the same value.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `[1,2,{"a":null}]`, `{"a":{"b":[true,"\u00fc"]}}`, ` "x" `, `{"a":1,"a":1}`, "{\"a\":\"\xff\"}", `1e999`, `[[[[`,
		strings.Repeat(`{"a":`, 33) + `1` + strings.Repeat(`}`, 33), strings.Repeat(`{"\u0061":1,"b":`, 40) + `1` + strings.Repeat(`}`, 40),
		`{"a":` + strings.Repeat(`{"\/":`, 40) + `[{"\u0061":1,"b":2}]` + strings.Repeat(`,"b":1}`, 40) + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Parse(raw)
		if err != nil {
			if reason := err.Error(); stdjson.Valid(raw) && !slices.ContainsFunc([]string{"duplicate key", "UTF-8", "surrogate", "deeper than", "more than"},
				func(known string) bool { return strings.Contains(reason, known) }) {
				t.Fatalf("refused %q: %v", raw, err)
			}
			return
		}
		defer d.Release()
		if !stdjson.Valid(raw) {
			t.Fatalf("accepted %q", raw)
		}
		var want any
		if stdjson.Unmarshal(raw, &want) != nil {
			return // a number that no float64 holds
		}
		if got := reread(d.Root()); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q reads as %v, want %v", raw, got, want)
		}
	})
}

// reread reads a value through handles only.
func reread(v *Value) any {
	switch v.Kind() {
	case '{':
		object := map[string]any{}
		for name, member := range v.Members() {
			object[name] = reread(member)
		}
		return object
	case '[':
		list := []any{}
		for element := range v.Elements() {
			list = append(list, reread(element))
		}
		return list
	case '"':
		return v.Text()
	case '0':
		return As[float64](v)
	}
	return As[any](v)
}

// FuzzEdits derives document and edits from the input.
func FuzzEdits(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		editAtRandom(t, rand.New(rand.NewPCG(a, b)), fmt.Sprintf("seed %d,%d", a, b))
	})
}

// TestEscapedKeysAreCheap: an object whose only key has unusual escapes needs no map of its keys.
func TestEscapedKeysAreCheap(t *testing.T) {
	raw := []byte(`[{"\u0061":1}` + strings.Repeat(`,{"\u0061":1}`, 1000) + `]`)
	if n := testing.AllocsPerRun(10, func() { json.Own(raw) }); n > 50 {
		t.Errorf("%v allocations for 1,001 objects", n)
	}
	if _, err := Parse([]byte(`{"\u0061":1,"b":2,"a":3}`)); err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Errorf("a duplicate of an escaped key: %v", err)
	}
}
