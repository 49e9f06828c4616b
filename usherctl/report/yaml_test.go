package report

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"go.yaml.in/yaml/v2"
	kjson "sigs.k8s.io/json"
)

// TestAsYAML compares with yaml.Marshal.
func TestAsYAML(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		value := anyValue(r, 5)
		want, err := yaml.Marshal(value)
		if got := asYAML(value); err != nil || got != string(want) {
			t.Fatalf("seed %d: %v\n%s", seed, err, udiff.Unified("want", "got", string(want), got))
		}
	}
	var object any
	text := `{"a":{"b":[[1,"x"],[],{},[{"c":null}],1.5,1e30]},"on":{"y":"no"},"b.c/d":{"z10":1,"z9":2}}`
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	if want, _ := yaml.Marshal(object); asYAML(object) != string(want) {
		t.Errorf("%s\nwant\n%s", asYAML(object), want)
	}
}

var parts = []string{"a", "web", "Z", "e", "f", "0", "1", "10", "08", "0x1F", "0b1", "250m", "16Gi", "1e3", ".", "..", "-", "--", "/", ":", ": ", "#", " #",
	" ", "  ", "\n", "\t", "\\", `"`, "'", "=", "%", "@", "!", "&", "*", "?", "? ", "|", ">", "[", "]", "{", "}", ",", "~", "y", "yes", "No", "ON", "true",
	"False", "null", "Null", "NULL", "nULL", ".inf", ".nan", "<<", "=", "_", "+", "1_000", "2020-01-02", "2020-01-02T03:04:05Z", "190:20:30", "é", "\u2028",
	"\u00a0", "\x7f", "registry.example.com/team/app:v1", "--config=/etc/app/config.yaml", "a long text with words that is to be folded somewhere ",
	strings.Repeat("x", 60), "kubernetes.io/hostname", "$(POD)", "`"}

func anyValue(r *rand.Rand, depth int) any {
	if depth > 0 && r.IntN(3) > 0 {
		if r.IntN(3) == 0 {
			list := []any{}
			for range r.IntN(4) {
				list = append(list, anyValue(r, depth-1))
			}
			return list
		}
		object := map[string]any{}
		for range r.IntN(5) {
			key := strings.Map(func(c rune) rune { // yaml.Marshal has no certain order of keys with digits
				if c >= '0' && c <= '9' {
					return 'k'
				}
				return c
			}, anyText(r))
			object[key] = anyValue(r, depth-1)
		}
		return object
	}
	switch r.IntN(10) {
	case 0:
		return r.IntN(2) == 0
	case 1:
		return r.Int64() - r.Int64()
	case 2:
		return r.NormFloat64()
	case 3:
		return nil
	}
	return anyText(r)
}

func anyText(r *rand.Rand) string {
	text := parts[r.IntN(len(parts))]
	for r.IntN(2) == 0 {
		text += parts[r.IntN(len(parts))]
	}
	return text
}
