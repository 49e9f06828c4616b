package document

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzText compares the encoding of strings with that of json.Marshal, which clients of the patch know.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "plain", `"`, `\`, `a"b\c"`, "<&>", "\n", "\x7f", "ü", "\xff", "\u2028", `"` + "\u2029", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendText([]byte("before"), text); !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
		if got := encode(text); !bytes.Equal(got, want) {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	})
}
