package mutators

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/api"
	"usher.dev/usher/document"
)

// amplifiedAnnotation is the amplifier's memory on a node, as JSON:
//
//	{"cpu":{"raw":{"allocatable":"15900m","capacity":"16"},"result":{"allocatable":"31800m","capacity":"31900m"},"ratio":"2","by":"pool default"}}
//
// result has no capacity when capacity is kept. "wanted" stands there where what the node uses may lower the ratio: it is the ratio
// without that.
const amplifiedAnnotation = "usher.dev/amplified"

// memory holds a record for each amplified resource; a nil one, null in the annotation, where there was one that cannot be read: it
// says that the number may be amplified.
type memory map[corev1.ResourceName]*record

// record is what we remember of one resource.
type record struct {
	raw, result amounts
	ratio       api.Ratio
	wanted      api.Ratio // as in rate
	by          string
}

// recordJSON is a record as it stands in the annotation.
type recordJSON struct {
	Raw    amountsJSON `json:"raw"`
	Result amountsJSON `json:"result"`
	Ratio  api.Ratio   `json:"ratio"`
	Wanted api.Ratio   `json:"wanted,omitzero"`
	By     string      `json:"by"`
}

type amountsJSON struct {
	Allocatable string `json:"allocatable"`
	Capacity    string `json:"capacity,omitempty"`
}

// readMemory reads the annotation. Records that do not read, or whose result is not original × ratio, are left out:
// whoever forged or damaged them, they explain nothing. damaged tells that there was something of the kind.
func readMemory(text string, present bool) (m memory, damaged bool) {
	m = memory{}
	if !present {
		return m, false
	}
	parsed, err := document.ParseText(text)
	if err != nil {
		return m, true
	}
	defer parsed.Release()
	for name, member := range parsed.Root().Members() {
		if r := readRecord(member); r.consistent(corev1.ResourceName(name)) {
			m[corev1.ResourceName(name)] = r
		} else {
			damaged = true
		}
	}
	return m, damaged || parsed.Err() != nil
}

func readRecord(v *document.Value) *record {
	r := &record{raw: readAmounts(v.Get("raw")), result: readAmounts(v.Get("result")), by: v.Get("by").Text()}
	r.ratio, _ = api.ParseRatio(v.Get("ratio").Text()) // one that does not read is 1, and then nothing is consistent but raw itself
	r.wanted, _ = api.ParseRatio(v.Get("wanted").Text())
	return r
}

func readAmounts(v *document.Value) (a amounts) {
	if q, err := api.ParseQuantity(v.Get("allocatable").Text()); err == nil {
		a.allocatable = &q
	}
	if q, err := api.ParseQuantity(v.Get("capacity").Text()); err == nil {
		a.capacity = &q
	}
	return a
}

// of is the record of one resource; nil if there is none, or if it lacks the capacity that the node shows: not one of ours.
func (m memory) of(name corev1.ResourceName, node *admit.Node) *record {
	r := m[name]
	if _, shown := node.Capacity().Get(name); r != nil && r.raw.capacity == nil && shown {
		return nil
	}
	return r
}

// consistent tells whether a record is one that we could have written.
func (r *record) consistent(name corev1.ResourceName) bool {
	if r.raw.allocatable == nil || r.raw.allocatable.Sign() <= 0 {
		return false
	}
	result, _ := r.ratio.Amplify(*r.raw.allocatable, name)
	return same(&result, r.result.allocatable) &&
		(r.result.capacity == nil || r.raw.capacity != nil && same(raisedCapacity(name, r.raw, result), r.result.capacity))
}

// readMemories reads the memory in a node and in the stored one, which is nil if there is none. They are the same text in most
// requests. damaged is of either.
func readMemories(node, old *admit.Node) (mine, stored memory, damaged bool) {
	text, present := node.Annotation(amplifiedAnnotation)
	mine, damaged = readMemory(text, present)
	if old == nil {
		return mine, memory{}, damaged
	}
	oldText, oldPresent := old.Annotation(amplifiedAnnotation)
	if oldText == text && oldPresent == present {
		return mine, mine, damaged
	}
	stored, alsoDamaged := readMemory(oldText, oldPresent)
	return mine, stored, damaged || alsoDamaged
}

// explains reports whether anything is remembered.
func (m memory) explains() bool {
	for _, r := range m {
		if r != nil {
			return true
		}
	}
	return false
}

// write puts the memory into the annotation; an empty memory removes it.
func (m memory) write(node *admit.Node) {
	if len(m) == 0 {
		node.RemoveAnnotation(amplifiedAnnotation)
		return
	}
	records := map[corev1.ResourceName]*recordJSON{}
	for name, r := range m {
		if r == nil {
			records[name] = nil
			continue
		}
		records[name] = &recordJSON{Raw: r.raw.json(), Result: r.result.json(), Ratio: r.ratio, Wanted: r.wanted, By: r.by}
	}
	text, err := json.Marshal(records)
	if err != nil {
		panic(err) // strings and decimal ratios always encode
	}
	node.SetAnnotation(amplifiedAnnotation, string(text))
}

func (a amounts) json() (j amountsJSON) {
	if a.allocatable != nil {
		j.Allocatable = a.allocatable.String()
	}
	if a.capacity != nil {
		j.Capacity = a.capacity.String()
	}
	return j
}
