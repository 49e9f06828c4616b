package amplify

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/document"
	"usher.dev/usher/quantity"
)

// AnnotationKey is the key of the annotation on a node in which the amplifier remembers the originals, as JSON:
//
//	{"cpu":{"raw":{"allocatable":"15900m","capacity":"16"},"result":{"allocatable":"31800m","capacity":"31900m"},"ratio":"2","by":"pool default"}}
//
// result has no capacity if capacity is kept. "wanted" is present if the node's usage may lower the ratio; it is the
// ratio without that.
const AnnotationKey = "usher.dev/amplified"

// Annotation holds an entry for each amplified resource. A nil entry, null in the annotation, stands for one that could
// not be read: it marks the number as possibly amplified.
type Annotation map[corev1.ResourceName]*Entry

// Entry is what is remembered of one resource.
type Entry struct {
	Raw, Result Amounts
	Ratio       quantity.Ratio
	Wanted      quantity.Ratio // as in Rate
	by          string
}

// entryJSON is the JSON form of an Entry.
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

// ReadAnnotation parses the annotation. Entries that do not parse, or whose result is not original × ratio, are left
// out, because they explain nothing; damaged reports whether there were any.
func ReadAnnotation(text string, present bool) (m Annotation, damaged bool) {
	m = Annotation{}
	if !present {
		return m, false
	}
	parsed, err := document.ParseText(text)
	if err != nil {
		return m, true
	}
	defer parsed.Release()
	for name, member := range parsed.Root().Members() {
		if r := readEntry(member); r.consistent(corev1.ResourceName(name)) {
			m[corev1.ResourceName(name)] = r
		} else {
			damaged = true
		}
	}
	return m, damaged || parsed.Err() != nil
}

func readEntry(v *document.Value) *Entry {
	r := &Entry{Raw: readAmounts(v.Get("raw")), Result: readAmounts(v.Get("result")), by: v.Get("by").Text()}
	r.Ratio, _ = quantity.ParseRatio(v.Get("ratio").Text()) // 1 if it does not parse; then only a result equal to raw is consistent
	r.Wanted, _ = quantity.ParseRatio(v.Get("wanted").Text())
	return r
}

func readAmounts(v *document.Value) (a Amounts) {
	if q, err := quantity.ParseQuantity(v.Get("allocatable").Text()); err == nil {
		a.Allocatable = &q
	}
	if q, err := quantity.ParseQuantity(v.Get("capacity").Text()); err == nil {
		a.Capacity = &q
	}
	return a
}

// of returns the entry of one resource. It returns nil if there is none, or if it lacks the capacity that the node
// shows, because usher writes no such entry.
func (m Annotation) of(name corev1.ResourceName, node *admit.Node) *Entry {
	r := m[name]
	if _, shown := node.Capacity().Get(name); r != nil && r.Raw.Capacity == nil && shown {
		return nil
	}
	return r
}

// consistent reports whether usher could have written the entry.
func (r *Entry) consistent(name corev1.ResourceName) bool {
	if r.Raw.Allocatable == nil || r.Raw.Allocatable.Sign() <= 0 {
		return false
	}
	result, _ := r.Ratio.Amplify(*r.Raw.Allocatable, name)
	return Same(&result, r.Result.Allocatable) &&
		(r.Result.Capacity == nil || r.Raw.Capacity != nil && Same(raisedCapacity(name, r.Raw, result), r.Result.Capacity))
}

// readAnnotations reads the annotations of a node and of the stored one, which may be nil. They are identical in most
// requests. damaged applies to either.
func readAnnotations(node, old *admit.Node) (mine, stored Annotation, damaged bool) {
	text, present := node.Annotation(AnnotationKey)
	mine, damaged = ReadAnnotation(text, present)
	if old == nil {
		return mine, Annotation{}, damaged
	}
	oldText, oldPresent := old.Annotation(AnnotationKey)
	if oldText == text && oldPresent == present {
		return mine, mine, damaged
	}
	stored, alsoDamaged := ReadAnnotation(oldText, oldPresent)
	return mine, stored, damaged || alsoDamaged
}

// explains reports whether any entry can be read.
func (m Annotation) explains() bool {
	for _, r := range m {
		if r != nil {
			return true
		}
	}
	return false
}

// write sets the annotation on the node; an empty one is removed.
func (m Annotation) write(node *admit.Node) {
	if len(m) == 0 {
		node.RemoveAnnotation(AnnotationKey)
		return
	}
	records := map[corev1.ResourceName]*entryJSON{}
	for name, r := range m {
		if r == nil {
			records[name] = nil
			continue
		}
		records[name] = &entryJSON{Raw: r.Raw.json(), Result: r.Result.json(), Ratio: r.Ratio, Wanted: r.Wanted, By: r.by}
	}
	text, err := json.Marshal(records)
	if err != nil {
		panic(err) // strings and decimal ratios always encode
	}
	node.SetAnnotation(AnnotationKey, string(text))
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
