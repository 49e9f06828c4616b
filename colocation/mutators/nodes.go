package mutators

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/mutators/amplify"
)

// rawWitness returns an entry made from Koordinator's annotations, for a resource without an entry of our own: ours was
// lost, or Koordinator's webhook was active before. It is only used if it explains the incoming number; noted reports
// that there is an original that does not.
func rawWitness(node, old *admit.Node, seen amplify.Observation) (found *amplify.Entry, noted bool) {
	from := node
	if old != nil {
		from = old
	}
	raw, noted := readRaw(from)[seen.Name]
	witness := amplify.Amounts{Allocatable: &raw, Capacity: seen.Now.Capacity}
	if !noted || raw.Sign() <= 0 || !amplify.Plausible(witness) {
		return nil, noted
	}
	said, _ := api.ParseNodeRatios(views.RatioAnnotation(from))
	ratio, ok := said.Of[seen.Name]
	if !ok {
		ratio = seen.Rate.Ratio
	}
	result, _ := ratio.Amplify(raw, seen.Name)
	now := seen.Now.Allocatable
	switch {
	case amplify.Same(now, &raw), amplify.Same(now, &result):
		return &amplify.Entry{Raw: witness, Result: amplify.Amounts{Allocatable: &result}, Ratio: ratio}, false
	case olderResult(seen) && raw.Cmp(*now) <= 0:
		return &amplify.Entry{Raw: witness, Result: amplify.Amounts{Allocatable: now}, Ratio: ratio}, false
	}
	return nil, true
}

// olderResult reports whether a stored number that this write does not change is the result of a ratio that may no
// longer apply: no kubelet can have measured it, because it does not fit into capacity.
func olderResult(s amplify.Observation) bool {
	return !s.Damaged && s.Unchanged() && !amplify.Plausible(s.Now)
}

// readRaw returns Koordinator's list of originals; nil if it does not parse.
func readRaw(node *admit.Node) api.ResourceList {
	text, _ := node.Annotation(api.AnnotationRawAllocatable)
	if text == "" {
		return nil
	}
	parsed, err := document.ParseText(text)
	if err != nil {
		return nil
	}
	defer parsed.Release()
	list := api.ResourceList{}
	for name, member := range parsed.Root().Members() {
		q, err := quantity.ParseQuantity(member.Text())
		if err != nil {
			return nil
		}
		list[corev1.ResourceName(name)] = q
	}
	if parsed.Err() != nil {
		return nil
	}
	return list
}

// writeRaw writes the originals for Koordinator's scheduler: of both resources, amplified or not, as Koordinator's
// webhook does wherever a ratio is set. Without a ratio the list is removed. Unknown originals keep their value in the
// list.
func writeRaw(node *admit.Node, asked bool, next amplify.Annotation, lost []corev1.ResourceName) {
	if !asked {
		if len(lost) == 0 {
			node.RemoveAnnotation(api.AnnotationRawAllocatable)
		}
		return
	}
	before := readRaw(node)
	list := originals(node, next, lost, before)
	if len(list) == 0 || maps.EqualFunc(list, before, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }) {
		return
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // quantities always encode
	}
	node.SetAnnotation(api.AnnotationRawAllocatable, string(text))
}

// originals returns what the kubelet measured, as far as it is known: for resources that are not amplified, the current
// number.
func originals(node *admit.Node, next amplify.Annotation, lost []corev1.ResourceName, before api.ResourceList) api.ResourceList {
	list := api.ResourceList{}
	for _, name := range amplify.Amplifiable() {
		q, known := node.Allocatable().Get(name)
		switch {
		case slices.Contains(lost, name):
			q, known = before[name]
		case next[name] != nil:
			q, known = *next[name].Raw.Allocatable, true
		}
		if known {
			list[name] = q
		}
	}
	return list
}
