package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzValues: of every stream, values reads what json.Decoder reads, however the bytes arrive.
func FuzzValues(f *testing.F) {
	for _, text := range []string{
		`{"type":"ADDED","object":{"a":["]","}","\"{",{"b":"\\"}]}}` + "\n" + `{"type":"BOOKMARK"}` + "\n", ` {} [] "a" "\\\"" {"a":[1,{"b":null}]}x`,
		`{"a":"\u005d\\\\"}{"b":-1e5}`, `[[[[]]],`, `{"a`, "\ufeff{}", "", " \t\r\n", `"` + "\x00" + `"`, `{"a":tru}`, `]`, `{]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, in := range []io.Reader{bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text)), iotest.HalfReader(bytes.NewReader(text))} {
			want, got := json.NewDecoder(bytes.NewReader(text)), newValues(in)
			for {
				var value json.RawMessage
				if err := want.Decode(&value); err != nil || !strings.ContainsRune(`{["`, rune(value[0])) {
					break // after what is no JSON, or a number, whose end nothing marks
				}
				if next, err := got.next(nil); err != nil || !bytes.Equal(next, value) {
					t.Fatalf("%q: %q, %v, want %q", text, next, err, value)
				}
			}
			for range len(text) + 1 { // and it comes to the end of anything
				if _, err := got.next(nil); err != nil {
					return
				}
			}
			t.Fatalf("%q: no end", text)
		}
	})
}

func TestValuesMembers(t *testing.T) {
	for text, want := range map[string]string{
		` { } `:                                "",
		`{"a": 1 , "b":[ true, null ],"c":{}}`: "a=1 b=[ true, null ] c={}",
		`{"\u0061":"x"}x`:                      `a="x"`,
		`{"a":1,}`:                             "!",
		`{"a" 1}`:                              "!",
		`{"a":1 "b":2}`:                        "!",
		`{"a":`:                                "!EOF",
		`{"a":1`:                               "!EOF",
		`{`:                                    "!EOF",
		``:                                     "!EOF",
		`[]`:                                   "!",
		`{1:2}`:                                "!",
		`null`:                                 "!",
	} {
		wantMembers(t, strings.NewReader(text), text, want)
		wantMembers(t, iotest.OneByteReader(strings.NewReader(text)), text, want)
	}
}

// wantMembers checks what members reads of a stream of the given text.
func wantMembers(t *testing.T, in io.Reader, text, want string) {
	t.Helper()
	var got []string
	v := newValues(in)
	err := v.members(func(name string) error {
		value, err := v.next(nil)
		got = append(got, name+"="+string(value))
		return err
	})
	if errors.Is(err, io.ErrUnexpectedEOF) != (want == "!EOF") || (err != nil) != strings.HasPrefix(want, "!") {
		t.Errorf("%s: %v, want %q", text, err, want)
	}
	if err == nil && strings.Join(got, " ") != want {
		t.Errorf("%s: %q, want %q", text, got, want)
	}
}

func TestWithoutManagedFields(t *testing.T) {
	for _, c := range []struct{ text, want string }{ // without want, it stays
		{`{"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:a":["]"]}},{"x":1}],"uid":"u"},"spec":{}}`,
			`{"metadata":{"name":"a","managedFields":[],"uid":"u"},"spec":{}}`},
		{`{"metadata":{"managedFields":[{"manager":"m"}]}}`, `{"metadata":{"managedFields":[]}}`},
		{`{"metadata":{"managedFields":[]}}`, ""},
		{`{"metadata":{"managedFields": [{"manager":"m"}]}}`, ""}, // not as an API server writes it
		{`{"data":{"x":"\"managedFields\":[{\"manager\":\"m\"}]"}}`, ""},
		{`{"data":{"\"managedFields":[{"manager":"m"}]}}`, ""}, // another name, which ends like this
		{`{"metadata":{"managedFields":[{"manager":"m"`, ""},
		{`{"spec":{"managedFields":["manager"]},"metadata":{"managedFields":3}}`, ""},
	} {
		raw, want := []byte(c.text), cmp.Or(c.want, c.text)
		if got := string(withoutManagedFields(raw)); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", c.text, got, want)
		}
	}
}
