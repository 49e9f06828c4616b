package mask

import (
	"strings"
	"testing"
)

// TestMask: what is hidden, and what is not.
func TestMask(t *testing.T) {
	for _, c := range []struct {
		at, value, want string
		secret          bool
	}{
		{"/metadata/annotations/a", `"v"`, `"***"`, false},
		{"/metadata/annotations", `{"a":"v","b":"w"}`, `{"a":"***","b":"***"}`, false},
		{"/metadata", `{"name":"n","annotations":{"a":"v"},"labels":{"annotations":"l","env":"prod"}}`,
			`{"annotations":{"a":"***"},"labels":{"annotations":"l","env":"prod"},"name":"n"}`, false},
		{"/metadata/annotations/a/deeper", `"v"`, `"***"`, false},
		{"/spec/template/metadata/annotations/a", `"v"`, `"***"`, false},
		{"/spec/containers/0/env/1/value", `"v"`, `"***"`, false},
		{"/spec/containers/0/env/1/name", `"v"`, `"v"`, false},
		{"/spec/containers/0/env/-", `{"name":"n","value":"v"}`, `{"name":"n","value":"***"}`, false},
		{"/spec/containers/0/env/0", `{"name":"n","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}`, `{"name":"n","valueFrom":{"secretKeyRef":{"key":"k","name":"s"}}}`, false},
		{"/spec/containers/0/env", `["v"]`, `["***"]`, false},
		{"/spec/env", `{"A":"v"}`, `{"A":"***"}`, false},
		{"/spec/env", `"v"`, `"***"`, false},
		{"", `{"kind":"Secret","data":{"k":"dg=="},"stringData":{"k":"v"},"type":"t"}`, `{"data":{"k":"***"},"kind":"Secret","stringData":{"k":"***"},"type":"t"}`, false},
		{"/data/k", `"dg=="`, `"***"`, true},
		{"/data/k", `"v"`, `"v"`, false},
		{"/spec/template", `{"kind":"Secret","data":{"k":"v"}}`, `{"data":{"k":"***"},"kind":"Secret"}`, false},
		{"/status/token", `"v"`, `"***"`, false},
		{"/metadata/annotations", `"v"`, `"***"`, false},
		{"/metadata/labels/a", `"v"`, `"v"`, false},
	} {
		t.Run(c.at+c.value[:min(30, len(c.value))], func(t *testing.T) {
			value, err := Decode([]byte(c.value))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(encode((&Mask{Secret: c.secret}).Value(tokens(c.at), value))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got, _ := Decode(encode((&Mask{Secret: c.secret, Show: true}).Value(tokens(c.at), value))); string(encode(got)) != string(encode(value)) {
				t.Errorf("with --show-values %v", got)
			}
		})
	}
}

// tokens splits a JSON pointer without escapes.
func tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	return strings.Split(pointer[1:], "/")
}
