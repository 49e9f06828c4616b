package document

import (
	"bytes"
	stdjson "encoding/json"
	"testing"

	"usher.dev/usher/admit/document/internal/json"
)

// FuzzText compares the encoding of strings with json.Marshal's, which clients of the patch know.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "plain", `"`, `\`, `a"b\c"`, "<&>", "\n", "\x7f", "ü", "\xff", "\u2028", `"` + "\u2029", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := stdjson.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendText([]byte("before"), text); !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
		for _, other := range []string{text, string(want[1 : len(want)-1])} {
			if json.IsText(want, other) != (json.Unquote(want) == other) {
				t.Errorf("IsText(%s, %q) is wrong", want, other)
			}
		}
		d := parse(t, `{}`)
		d.Root().Get("a").SetText(text)
		d.Root().Get("l").AppendTexts(TextMember{"k", text}, TextMember{"none", ""}, TextMember{text, "v"})
		same := parse(t, `{}`)
		same.Root().Get("a").Set(text)
		same.Root().Get("l").Append(pairs{{"k", text}, {text, "v"}})
		if got, want := d.Bytes(), same.Bytes(); !bytes.Equal(got, want) {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	})
}

// pairs is an object of strings, without those that are empty.
type pairs [][2]string

// MarshalJSON encodes each key and text by json.Marshal.
func (p pairs) MarshalJSON() ([]byte, error) {
	var members [][]byte
	for _, pair := range p {
		if pair[1] == "" {
			continue
		}
		key, _ := stdjson.Marshal(pair[0])
		text, err := stdjson.Marshal(pair[1])
		if err != nil {
			return nil, err
		}
		members = append(members, append(append(key, ':'), text...))
	}
	return append(append([]byte("{"), bytes.Join(members, []byte(","))...), '}'), nil
}
