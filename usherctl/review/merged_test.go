package review

import (
	"encoding/json"
	"testing"

	"usher.dev/usher/usherctl/engine"
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
