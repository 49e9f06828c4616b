package views

import (
	"testing"

	"usher.dev/usher/admit/document"
)

func TestBindingView(t *testing.T) {
	for text, want := range map[string][2]string{
		`{"metadata":{"name":"web-1"},"target":{"kind":"Node","name":"node-7"}}`: {"web-1", "node-7"},
		`{"target":null}`: {}, `{}`: {},
	} {
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if b := AsBinding(d); b.Name() != want[0] || b.Target() != want[1] || d.Err() != nil {
			t.Errorf("%s: %s, %s, %v", text, b.Name(), b.Target(), d.Err())
		}
	}
}
