package report

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestYAML: objects are shown as kubectl shows them, numbers as they are; and so are pairs of surrogates, which the parser of YAML refuses.
func TestYAML(t *testing.T) {
	for _, text := range []string{`{"b":1,"a":9007199254740993,"c":-0.5,"d":1e3,"e":1.0,"f":null,"g":[],"h":{},"i":true}`,
		`{"a":"1","b":"yes","c":"0x1F","d":"1e3","e":"~","f":"","g":" a","h":"a: b","i":"#","j":"2026-01-01","k":"null"}`,
		`{"a":"one\ntwo\n","b":"\t\u0007é\u2028","c":["x",["y",{"z":[{}]}]],"10":1,"9":2}`, `[1,"a"]`, `"a"`, `{`} {
		want, _ := yaml.JSONToYAML([]byte(text))
		if got := yamlOf([]byte(text)); got != string(want) && text != `{` || text == `{` && got != "" {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, want)
		}
	}
	if yamlOf([]byte(`"\ud83d\ude00"`)) == "" {
		t.Error("nothing is shown of a pair of surrogates")
	}
}
