package admit

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// Pod is the view of a core/v1 Pod.
type Pod struct{ Meta }

// AsPod views a document as a Pod.
func AsPod(d *document.Document) *Pod { return &Pod{Meta{d.Root()}} }

// Phase returns status.phase.
func (p *Pod) Phase() corev1.PodPhase { return corev1.PodPhase(p.root.At("status", "phase").Text()) }

// Object returns the whole typed pod with all edits so far. It costs a full decoding; most steps need only parts.
func (p *Pod) Object() corev1.Pod { return document.As[corev1.Pod](p.root) }

// NodeNamePath is the field path of spec.nodeName.
var NodeNamePath = field.NewPath("spec", "nodeName")

// NodeName returns spec.nodeName; empty while the pod is not bound.
func (p *Pod) NodeName() string { return p.root.At("spec", "nodeName").Text() }

// RestartPolicy returns spec.restartPolicy; empty if it is not set, which stands for Always.
func (p *Pod) RestartPolicy() corev1.RestartPolicy {
	return corev1.RestartPolicy(p.root.At("spec", "restartPolicy").Text())
}

// SpecPath returns the field path of the spec; in a pod template it begins with the template's path.
func (p *Pod) SpecPath() *field.Path { return p.root.Get("spec").Path() }

// Spec returns the whole typed spec with all edits so far. It costs a full decoding; most steps need only parts.
func (p *Pod) Spec() corev1.PodSpec { return document.As[corev1.PodSpec](p.root.Get("spec")) }

// Tolerations returns spec.tolerations.
func (p *Pod) Tolerations() []corev1.Toleration {
	if list, ok := p.tolerations().Current(); ok {
		if all, ok := readTolerations(list); ok {
			return all
		}
	}
	return document.As[[]corev1.Toleration](p.tolerations())
}

func (p *Pod) tolerations() *document.Value { return p.root.At("spec", "tolerations") }

// maxRead is the number of tolerations above which they are decoded, which is bounded.
const maxRead = 100

// readTolerations reads tolerations that have only the fields that the typed ones have, of the right types. Nearly all
// do. ok is false for any other list, which is left to the decoder and its errors.
func readTolerations(list document.Raw) (all []corev1.Toleration, ok bool) {
	size := list.Size()
	if list.Kind() != document.Array || size > maxRead {
		return nil, false
	}
	all = make([]corev1.Toleration, size)
	elements := list.Children()
	for i := range all {
		if !readToleration(elements.Next(), &all[i]) {
			return nil, false
		}
	}
	return all, true
}

func readToleration(raw document.Raw, t *corev1.Toleration) (ok bool) {
	if raw.Kind() != document.Object {
		return false
	}
	for members := raw.Children(); members.More(); {
		switch m := members.Next(); {
		case m.IsKey("tolerationSeconds"):
			seconds, err := strconv.ParseInt(string(m.Bytes()), 10, 64)
			if m.Kind() != document.Number || err != nil {
				return false
			}
			t.TolerationSeconds = &seconds
		case m.Kind() != document.Text:
			return false
		case m.IsKey("key"):
			t.Key = oneOf(m, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable) // which every pod tolerates
		case m.IsKey("operator"):
			t.Operator = oneOf(m, corev1.TolerationOpExists, corev1.TolerationOpEqual)
		case m.IsKey("value"):
			t.Value = m.Text()
		case m.IsKey("effect"):
			t.Effect = oneOf(m, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)
		default:
			return false
		}
	}
	return true
}

// oneOf returns a text, without allocating it if it is one of the usual ones.
func oneOf[T ~string](raw document.Raw, usual ...T) T {
	for _, text := range usual {
		if raw.IsText(string(text)) {
			return text
		}
	}
	return T(raw.Text())
}

// AppendToleration adds a toleration at the end.
func (p *Pod) AppendToleration(t corev1.Toleration) {
	if list := p.tolerations(); t.TolerationSeconds == nil {
		list.AppendTexts(document.TextMember{Key: "key", Text: t.Key}, document.TextMember{Key: "operator", Text: string(t.Operator)},
			document.TextMember{Key: "value", Text: t.Value}, document.TextMember{Key: "effect", Text: string(t.Effect)})
	} else {
		list.Append(t)
	}
}

// RemoveTolerations removes the tolerations at some places.
func (p *Pod) RemoveTolerations(places ...int) {
	all := slices.Collect(p.tolerations().Elements())
	for _, i := range places {
		all[i].Remove()
	}
}

// TolerationsPath returns the field path of spec.tolerations.
func (p *Pod) TolerationsPath() *field.Path { return p.tolerations().Path() }

// TolerationPath returns the field path of one toleration.
func (p *Pod) TolerationPath(i int) *field.Path { return p.tolerations().Path().Index(i) }
