package review

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/requests"
)

// TestMerged: what is shown of a change is the object as it was sent, with what was changed, and without defaults.
func TestMerged(t *testing.T) {
	for name, c := range map[string]struct{ sent, before, after, want string }{
		"nothing":              {`{"a":1}`, `{"a":1,"d":2}`, `{"a":1,"d":2}`, `{"a":1}`},
		"added":                {`{"a":1}`, `{"a":1,"d":2}`, `{"a":1,"b":3,"d":2}`, `{"a":1,"b":3}`},
		"a default":            {`{"a":1}`, `{"a":1,"d":2}`, `{"a":1,"d":3}`, `{"a":1,"d":3}`},
		"removed":              {`{"a":1,"b":2}`, `{"a":1,"b":2}`, `{"a":1}`, `{"a":1}`},
		"as it was written":    {`{"q":"1000m","l":{}}`, `{"q":"1"}`, `{"q":"1","l":{"x":"y"}}`, `{"l":{"x":"y"},"q":"1000m"}`},
		"a field nobody knows": {`{"mine":1}`, `{}`, `{"a":1}`, `{"a":1,"mine":1}`},
		"in a list":            {`{"l":[{"name":"a"}]}`, `{"l":[{"name":"a","d":1}]}`, `{"l":[{"name":"a","d":1,"b":2}]}`, `{"l":[{"b":2,"name":"a"}]}`},
		"before another":       {`{"l":[{"name":"a"}]}`, `{"l":[{"name":"a","d":1}]}`, `{"l":[{"name":"n"},{"name":"a","d":1}]}`, `{"l":[{"name":"n"},{"name":"a"}]}`},
		"without a name":       {`{"l":[{"p":80}]}`, `{"l":[{"p":80,"d":1}]}`, `{"l":[{"p":80,"d":1},{"p":81}]}`, `{"l":[{"p":80},{"p":81}]}`},
		"beside what is left out": {`{"l":[{"p":1}]}`, `{"l":[{"p":1},{"routine":1}]}`, `{"l":[{"p":1},{"routine":1},{"p":2}]}`,
			`{"l":[{"p":1},{"p":2}]}`},
		"mounts of one volume": {`{"m":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}]}`,
			`{"m":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}]}`, `{"m":[{"name":"v","mountPath":"/b"},{"name":"v","mountPath":"/a"}]}`,
			`{"m":[{"mountPath":"/b","name":"v"},{"mountPath":"/a","name":"v"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Merge(json.RawMessage(c.sent), json.RawMessage(c.before), json.RawMessage(c.after)); string(got) != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if got := merged(json.RawMessage(`{}`), []engine.Change{{Plugin: "Priority"}}); string(got) != `{}` {
		t.Errorf("of a plug-in that completes each object: %s", got)
	}
}

// TestMergedAsDecoded: what stays JSON in a change makes no difference.
func TestMergedAsDecoded(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		var texts [3]json.RawMessage
		var values [3]any
		for i := range texts {
			texts[i], _ = json.Marshal(someObject(r, 4))
			values[i], _ = requests.DecodeJSON(texts[i])
		}
		want, _ := json.Marshal(merge(values[0], values[1], values[2]))
		if got := Merge(texts[0], texts[1], texts[2]); string(got) != string(want) {
			t.Fatalf("seed %d: %s with the change from %s to %s: %s, want %s", seed, texts[0], texts[1], texts[2], got, want)
		}
	}
}

// someObject returns an object of which another one has much, too.
func someObject(r *rand.Rand, depth int) map[string]any {
	object := map[string]any{}
	for _, key := range []string{"name", "mountPath", "a", "b", "l"} {
		switch n := r.IntN(8); {
		case n == 0:
		case n == 1 || depth == 0:
			object[key] = []any{"x", "y", 1, nil}[r.IntN(4)]
		case n == 2:
			object[key] = someObject(r, depth-1)
		case n == 3:
			object[key] = []any{"x", r.IntN(3), someObject(r, 0)}[:r.IntN(4)]
		case key == "l":
			object[key] = []any{map[string]any{"name": "p", "a": someObject(r, 0)}, map[string]any{"name": "q", "b": someObject(r, 0)}}[:r.IntN(3)]
		default:
			object[key] = map[string]any{"name": "same", "a": []any{map[string]any{"b": "c"}}}
		}
	}
	return object
}
