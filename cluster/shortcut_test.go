package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shortNodes is PodNodes with a shortcut, which counts how often it was taken.
func shortNodes(taken *int) *Collection[*podNode] {
	c := *PodNodes
	c.Keep = PodNodes.Keep.Or(func() Shortcut[*podNode] {
		return func(o Sent, decode func() (*podNode, bool)) (*podNode, bool) {
			node := o.Object.Member("spec").Member("nodeName").Text()
			if node == "" {
				return decode()
			}
			*taken++
			return &podNode{node}, node != "?"
		}
	})
	return &c
}

// TestShortcut: with a shortcut and without, an object has the same key, version and annotations for followers, and decodes or
// does not.
func TestShortcut(t *testing.T) {
	const usual = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns","uid":"u","resourceVersion":"7","generation":2,` +
		`"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b"},"annotations":{"told":"\u00e4","x":""},"finalizers":["f"],` +
		`"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"o","controller":true}]},"spec":{"nodeName":"n"}}`
	texts := []string{usual, strings.Replace(usual, `"namespace":"ns",`, "", 1), strings.Replace(usual, `"p"`, `"\u0070\n"`, 1),
		strings.Replace(usual, `"2026-01-01T00:00:00Z"`, "null", 1), strings.Replace(usual, `"told"`, `"untold"`, 1), "[" + usual + "]",
		`{"metadata":{"name":"p"},"spec":{"nodeName":"n"}}`, `{"metadata":{"name":"p"},"spec":{"nodeName":""}}`, usual + "x"}

	texts = append(texts, string(withoutManagedFields([]byte(strings.Replace(usual, `"name":"p"`, `"name":"p","managedFields":[{"manager":"m","time":1}]`, 1)))))
	for _, text := range texts {
		wantSameItem(t, text, text != texts[5] && text != texts[7] && text != texts[8])
	}
	// Each value replaced by each other kind of value.
	var root any
	if err := json.Unmarshal([]byte(usual), &root); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths(root, nil) {
		for _, other := range []string{"null", "true", `""`, `"x"`, `"?"`, "1", "-1", "1.5", "1e3", "99999999999999999999", "[]", "[null]", `["x"]`, "[{}]", "{}", `{"a":1}`, `{"a":null}`} {
			text := with(t, usual, path, other)
			wantSameItem(t, text, false)
		}
	}
}

// wantSameItem compares the two ways, and requires that the shortcut is taken if it must be.
func wantSameItem(t *testing.T, text string, short bool) {
	t.Helper()
	wantSameInStream(t, text)
	taken := 0
	quick, slow := shortNodes(&taken).row(), PodNodes.row()
	got, gotErr := quick.decode([]byte(text))
	want, wantErr := slow.decode([]byte(text))
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || got != nil && want != nil && fmt.Sprint(got.err) != fmt.Sprint(want.err) {
		t.Fatalf("errors %v, %v, want %v, %v: %s", gotErr, got, wantErr, want, text)
	}
	if got != nil {
		got.err, want.err = nil, nil
	}
	if !reflect.DeepEqual(got, want) || short && taken == 0 {
		t.Fatalf("%+v, want %+v, the shortcut was taken %d times: %s", got, want, taken, text)
	}
}

// paths returns the keys and indices that lead to each value.
func paths(in any, to []any) (all [][]any) {
	add := func(step, value any) {
		path := append(append([]any{}, to...), step)
		all = append(append(all, path), paths(value, path)...)
	}
	switch in := in.(type) {
	case map[string]any:
		for key, value := range in {
			add(key, value)
		}
	case []any:
		for i, value := range in {
			add(i, value)
		}
	}
	return all
}

// with returns JSON with another value at a path.
func with(t *testing.T, text string, path []any, other string) string {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	at := root
	for i, step := range path {
		last := i == len(path)-1
		switch in := at.(type) {
		case map[string]any:
			if at = in[step.(string)]; last {
				in[step.(string)] = json.RawMessage(other)
			}
		case []any:
			if at = in[step.(int)]; last {
				in[step.(int)] = json.RawMessage(other)
			}
		}
	}
	changed, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

// TestShortcutKnowsAllMetadata: an object with a value of the wrong type in any part of its metadata is decoded.
func TestShortcutKnowsAllMetadata(t *testing.T) {
	for of, at := range map[reflect.Type]string{
		reflect.TypeFor[metav1.ObjectMeta](): "%s", reflect.TypeFor[metav1.OwnerReference](): `"ownerReferences":[{%s}]`,
	} {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			text := `{"metadata":{"name":"p",` + fmt.Sprintf(at, fmt.Sprintf("%q:%s", name, "1.5")) + `},"spec":{"nodeName":"n"}}`
			if name == "name" && at == "%s" {
				text = `{"metadata":{"name":1.5}}`
			}
			taken := 0
			r := shortNodes(&taken).row()
			if i, err := r.decode([]byte(text)); taken > 0 || err == nil && i.err == nil {
				t.Errorf("%s: %+v, %v, taken %d times", text, i, err, taken)
			}
		}
	}
}
