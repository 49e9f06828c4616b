package strategic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
)

func parse(t *testing.T, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("Parse(%s): %v", raw, err)
	}
	return d
}

func parsePatch(t *testing.T, raw string) *Patch {
	t.Helper()
	p, err := Parse([]byte(raw), corev1.Pod{})
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return p
}

// patched applies the document's patch to raw with the library that the API server uses.
func patched(t *testing.T, d *document.Document, raw string) string {
	t.Helper()
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	ops, err := json.Marshal(d.Patch())
	if err != nil {
		t.Fatal(err)
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
		t.Fatalf("%s on %s: %v", ops, raw, err)
	}
	return string(after)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if !document.SameText(got, want) {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func patchText(d *document.Document) string {
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

func collect(v *document.Value) []*document.Value {
	var all []*document.Value
	for e := range v.Elements() {
		all = append(all, e)
	}
	return all
}
