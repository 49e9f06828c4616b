package policytest

import (
	"strings"
	"testing"

	"usher.dev/usher/usherctl/requests"
)

func value(t *testing.T, text string) any {
	t.Helper()
	v, err := requests.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1,2]}`, `{"b":[1,2],"a":1}`, true},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,1]`, false},
		{`1`, `1.0`, true}, {`1e2`, `100`, true}, {`1`, `"1"`, false}, {`0.1`, `0.10`, true},
		{`9007199254740993`, `9007199254740992`, false}, // the same as float64
		{`1e400000000`, `1e400000000`, true}, {`1e400000000`, `1e400000001`, false},
		{`{"a":null}`, `{}`, false}, {`{}`, `{"a":null}`, false}, {`null`, `null`, true}, {`null`, `{}`, false}, {`[]`, `null`, false},
		{`true`, `true`, true}, {`"a"`, `["a"]`, false}, {`{"a":{}}`, `{"a":[]}`, false},
	} {
		if got := equal(value(t, c.a), value(t, c.b)); got != c.want {
			t.Errorf("%s and %s: %v, want %v", c.a, c.b, got, c.want)
		}
		if got := equal(value(t, c.b), value(t, c.a)); got != c.want {
			t.Errorf("%s and %s: %v, want %v", c.b, c.a, got, c.want)
		}
	}
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		whole, part string
		want        bool
	}{
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"c":2}}`, true},
		{`{"a":1}`, `{"a":2}`, false}, {`{"a":1}`, `{"b":1}`, false}, {`{"a":1}`, `{"b":null}`, false},
		{`[1,2,3]`, `[1,3]`, true}, {`[1,2,3]`, `[3,1]`, false}, {`[1]`, `[1,1]`, false}, {`[1,1]`, `[1,1]`, true},
		{`[{"name":"a","x":1},{"name":"b","x":2}]`, `[{"name":"b"}]`, true}, {`[{"name":"a","x":1},{"name":"b","x":2}]`, `[{"name":"b","x":1}]`, false},
		{`"abc"`, `"b"`, false}, // texts within are compared whole
		{`[]`, `{}`, false}, {`{}`, `[]`, false}, {`{"a":{}}`, `{"a":null}`, false}, {`{"a":null}`, `{"a":null}`, true},
	} {
		if got := contains(value(t, c.whole), value(t, c.part)); got != c.want {
			t.Errorf("%s in %s: %v, want %v", c.part, c.whole, got, c.want)
		}
	}
}

// TestMissing: only what is missing is named.
func TestMissing(t *testing.T) {
	for _, c := range []struct{ whole, part, want string }{
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"a":1,"b":{"c":2,"d":4,"e":5},"f":6}`, `{"b":{"d":4,"e":5},"f":6}`},
		{`[{"a":1},{"b":2}]`, `[{"b":2},{"c":3}]`, `[{"c":3}]`},
		{`[1,2]`, `[2,1]`, `[2,1]`}, // in another order
		{`[1]`, `[1,1]`, `[1,1]`},
		{`"abc"`, `["b"]`, `["b"]`}, {`null`, `{"a":1}`, `{"a":1}`}, {`1`, `2`, `2`},
	} {
		if got := missing(value(t, c.whole), value(t, c.part)); !equal(got, value(t, c.want)) {
			t.Errorf("%s of %s: %s, want %s", c.part, c.whole, asJSON(got), c.want)
		}
	}
	if got := missingTexts("rule team: set it", value(t, `["rule team", "is immutable"]`)); !equal(got, value(t, `["is immutable"]`)) {
		t.Errorf("of texts: %s", asJSON(got))
	}
}

// TestWithoutID: the id of a refusal depends on the name of the workload, and is not compared.
func TestWithoutID(t *testing.T) {
	for given, want := range map[string]string{
		"no (refusal 1f0c9a3e)":                               "no",
		"no (usher, step rules, refusal 1f0c9a3e)":            "no (usher, step rules)",
		"no (refusal 1f0c9a3e) and more":                      "no (refusal 1f0c9a3e) and more",
		"quotes (refusal 1f0c9a3e) itself (refusal 00000000)": "quotes (refusal 1f0c9a3e) itself",
		"(refusal soon)":                                      "(refusal soon)",
	} {
		if got := withoutID(given); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
	if !containsTexts("a, b and c", value(t, `["a","c"]`)) || containsTexts("a", value(t, `["a","b"]`)) || !containsTexts("a (usher, step x)", "(usher, step x, refusal 1f0c9a3e)") {
		t.Error("a list of texts is contained if each of them is")
	}
}

// TestStepsNotNamed: a step that is not named must do nothing.
func TestStepsNotNamed(t *testing.T) {
	for _, c := range []struct{ want, got, others string }{
		{`{}`, `{"a":"untouched","b":"off"}`, ""},
		{`{}`, `{"a":"changed"}`, "a"},
		{`{"a":"changed"}`, `{"a":"changed","b":"refused"}`, "b"},
		{`{"a":"untouched"}`, `{}`, "a"},
		{`{"a":"off"}`, `{}`, ""},
		{`{"a":"off"}`, `{"a":"untouched"}`, "a"},
		{`{"a":"changed","b":"changed"}`, `{"a":"refused"}`, "a b"},
	} {
		got := strings.Join(otherSteps(value(t, c.want).(map[string]any), value(t, c.got).(map[string]any)), " ")
		if got != c.others {
			t.Errorf("expected %s, got %s: %q, want %q", c.want, c.got, got, c.others)
		}
	}
}
