package amplify

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
)

// AnnotationKey is the key of the annotation on a node in which the amplifier remembers the originals, as JSON:
//
//	{"cpu":{"raw":{"allocatable":"15900m","capacity":"16"},"result":{"allocatable":"31800m","capacity":"31900m"},"ratio":"2","by":"pool default"}}
//
// result has no capacity if capacity is kept. "wanted" is present if the node's usage may lower the ratio; it is the
// ratio without that.
const AnnotationKey = "usher.dev/amplified"

// Annotation holds an entry for each amplified resource. A nil entry, null in the annotation, stands for an unreadable
// one: it marks the number as possibly amplified.
type Annotation map[corev1.ResourceName]*Entry

// Entry holds the memory of one resource.
type Entry struct {
	Raw, Result Amounts
	Ratio       quantity.Ratio
	Wanted      quantity.Ratio // as in Rate
	by          string
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
	var wrong wrongTypes
	for name, member := range parsed.Root().Members() {
		if r := wrong.entry(member.Raw()); r.consistent(corev1.ResourceName(name)) {
			m[corev1.ResourceName(name)] = r
		} else {
			damaged = true
		}
	}
	return m, damaged || bool(wrong) || parsed.Err() != nil
}

// wrongTypes is set when a part of the annotation has the wrong JSON type. What is missing or null is empty.
type wrongTypes bool

func (w *wrongTypes) entry(raw document.Raw) *Entry {
	r := &Entry{Raw: w.amounts(w.member(raw, "raw")), Result: w.amounts(w.member(raw, "result")), by: w.text(raw, "by")}
	r.Ratio, _ = quantity.ParseRatio(w.text(raw, "ratio")) // 1 if it does not parse; then only a result equal to raw is consistent
	if wanted := w.text(raw, "wanted"); wanted != "" {
		r.Wanted, _ = quantity.ParseRatio(wanted)
	}
	return r
}

func (w *wrongTypes) amounts(raw document.Raw) Amounts {
	return Amounts{Allocatable: w.quantity(raw, "allocatable"), Capacity: w.quantity(raw, "capacity")}
}

func (w *wrongTypes) quantity(raw document.Raw, name string) *resource.Quantity {
	q, err := quantity.ParseQuantity(w.text(raw, name))
	if err != nil {
		return nil
	}
	return &q
}

func (w *wrongTypes) text(object document.Raw, name string) string {
	return w.check(w.member(object, name), document.Text).Text()
}

func (w *wrongTypes) member(object document.Raw, name string) document.Raw {
	return w.check(object, document.Object).Member(name)
}

// check notes that a value is neither of a kind nor null or missing.
func (w *wrongTypes) check(raw document.Raw, kind document.Kind) document.Raw {
	if raw.Exists() && raw.Kind() != kind && raw.Kind() != document.Null {
		*w = true
	}
	return raw
}

// of returns the entry of one resource. It returns nil if there is none, or if it lacks the capacity that the node
// shows, because usher writes no such entry.
func (m Annotation) of(name corev1.ResourceName, shown Amounts) *Entry {
	r := m[name]
	if r != nil && r.Raw.Capacity == nil && shown.Capacity != nil {
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
	node.SetAnnotation(AnnotationKey, string(m.appendJSON(make([]byte, 0, 128*len(m)))))
}

// appendJSON appends the annotation, with its keys in order.
func (m Annotation) appendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(document.AppendText(b, string(name)), ':')
		if r := m[name]; r != nil {
			b = r.appendJSON(b)
		} else {
			b = append(b, "null"...)
		}
	}
	return append(b, '}')
}

func (r *Entry) appendJSON(b []byte) []byte {
	b = append(r.Raw.appendJSON(append(b, `{"raw":`...)), `,"result":`...)
	b = append(r.Result.appendJSON(b), `,"ratio":`...)
	b = document.AppendText(b, r.Ratio.String())
	if r.Wanted != (quantity.Ratio{}) {
		b = document.AppendText(append(b, `,"wanted":`...), r.Wanted.String())
	}
	return append(document.AppendText(append(b, `,"by":`...), r.by), '}')
}

func (a Amounts) appendJSON(b []byte) []byte {
	b = appendQuantity(append(b, `{"allocatable":`...), a.Allocatable)
	if a.Capacity != nil {
		b = appendQuantity(append(b, `,"capacity":`...), a.Capacity)
	}
	return append(b, '}')
}

func appendQuantity(b []byte, q *resource.Quantity) []byte {
	if q == nil {
		return append(b, `""`...)
	}
	return document.AppendText(b, q.String())
}
