package document

import (
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"
)

// FuzzSameText: what is known without decoding agrees with the decoded values.
func FuzzSameText(f *testing.F) {
	for _, pair := range [][2]string{
		{`"a"`, `"b"`}, {`"a"`, `"\u0061"`}, {` "a" `, `"a"`}, {`1`, `2`}, {`0`, `-0`}, {`1`, `1.0`}, {`1e1`, `10`}, {`true`, `false`}, {`null`, `{}`},
		{`{"a":1,"b":[2]}`, `{"b":[2],"a":1}`}, {`9223372036854775807`, `9223372036854775808`}, {`99999999999999999999`, `99999999999999999998`}, {`"1"`, `1`},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if CheckText(a) != nil || CheckText(b) != nil {
			return
		}
		var left, right any
		want := kjson.UnmarshalCaseSensitivePreserveInts([]byte(a), &left) == nil &&
			kjson.UnmarshalCaseSensitivePreserveInts([]byte(b), &right) == nil && reflect.DeepEqual(left, right)
		if got := SameText(a, b); got != want && a != b {
			t.Errorf("SameText(%q, %q) = %v", a, b, got)
		}
	})
}
