package amplify

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
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
		wantAsDecoded(t, text, read)
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

// wantAsDecoded checks what was read against the decoder.
func wantAsDecoded(t *testing.T, text string, read Annotation) {
	t.Helper()
	var decoded map[corev1.ResourceName]struct {
		Raw    amountsJSON `json:"raw"`
		Result amountsJSON `json:"result"`
		Ratio  string      `json:"ratio"`
		Wanted string      `json:"wanted"`
		By     string      `json:"by"`
	}
	if len(read) == 0 || kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &decoded) != nil {
		return // nothing, or an entry of the wrong type, which is left out
	}
	for name, r := range read {
		want := decoded[name]
		ratio, _ := quantity.ParseRatio(want.Ratio)
		wanted, _ := quantity.ParseRatio(want.Wanted)
		if r.by != want.By || r.Ratio != ratio || want.Wanted != "" && r.Wanted != wanted ||
			!sameAmounts(r.Raw, want.Raw) || !sameAmounts(r.Result, want.Result) {
			t.Errorf("%q: %s is %+v, want %+v", text, name, r, want)
		}
	}
}

func sameAmounts(is Amounts, want amountsJSON) bool {
	return sameQuantity(is.Allocatable, want.Allocatable) && sameQuantity(is.Capacity, want.Capacity)
}

func sameQuantity(is *resource.Quantity, text string) bool {
	want, err := quantity.ParseQuantity(text)
	if is == nil {
		return err != nil
	}
	return err == nil && is.Cmp(want) == 0
}
