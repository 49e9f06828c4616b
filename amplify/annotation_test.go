package amplify

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/document"
	"usher.dev/usher/quantity"
)

// annotationJSON is the JSON form of an Annotation, for the encoder.
type annotationJSON map[corev1.ResourceName]*entryJSON

type entryJSON struct {
	Raw    amountsJSON    `json:"raw"`
	Result amountsJSON    `json:"result"`
	Ratio  quantity.Ratio `json:"ratio"`
	Wanted quantity.Ratio `json:"wanted,omitzero"`
	By     string         `json:"by"`
}

type amountsJSON struct {
	Allocatable string `json:"allocatable"`
	Capacity    string `json:"capacity,omitempty"`
}

// FuzzAnnotation: an annotation is damaged if a part has the wrong type by the rules of a document's handles, and what
// was read is written as the encoder does.
func FuzzAnnotation(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `1`, `{"cpu":null}`, `{"cpu":{}}`, `{"cpu":1}`, `{"cpu":{"raw":1}}`, `{"cpu":{"raw":{"allocatable":1}}}`, `{`,
		`{"cpu":{"raw":{"allocatable":"15900m","capacity":"16"},"result":{"allocatable":"31800m","capacity":"31900m"},"ratio":"2","by":"pool default"}}`,
		`{"memory":{"raw":{"allocatable":"1Gi"},"result":{"allocatable":"1536Mi"},"ratio":"1.5","wanted":"2","by":"<&>ü\""},"cpu":{"raw":{"allocatable":"1","capacity":null},"result":{"allocatable":"1"}}}`,
		`{"cpu":{"raw":{"allocatable":"1"},"result":{"allocatable":"1"},"by":5}}`, `{"cpu":{"raw":{"allocatable":"1"},"result":{"allocatable":"1"},"wanted":["x"]}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, damaged := ReadAnnotation(text, true)
		if want := damagedByHandles(text, read); damaged != want {
			t.Errorf("%q: damaged %v, want %v", text, damaged, want)
		}
		want := annotationJSON{}
		for name, r := range read {
			want[name] = &entryJSON{r.Raw.json(), r.Result.json(), r.Ratio, r.Wanted, r.by}
		}
		read["none"], want["none"] = nil, nil
		encoded, _ := json.Marshal(want)
		if diff := cmp.Diff(string(encoded), string(read.appendJSON(nil))); diff != "" {
			t.Errorf("%q (-encoder +own):\n%s", text, diff)
		}
	})
}

func (a Amounts) json() (j amountsJSON) {
	if a.Allocatable != nil {
		j.Allocatable = a.Allocatable.String()
	}
	if a.Capacity != nil {
		j.Capacity = a.Capacity.String()
	}
	return j
}

// damagedByHandles reports whether a text has an entry that was not read, or a part of the wrong type.
func damagedByHandles(text string, read Annotation) bool {
	d, err := document.ParseText(text)
	if err != nil {
		return true
	}
	missing := false
	for name, v := range d.Root().Members() {
		for _, part := range []string{"ratio", "by", "wanted"} {
			v.Get(part).Text()
		}
		for _, part := range []string{"raw", "result"} {
			v.At(part, "allocatable").Text()
			v.At(part, "capacity").Text()
		}
		missing = missing || read[corev1.ResourceName(name)] == nil
	}
	return missing || d.Err() != nil
}
