package webhookmatch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/internal/selector"
)

// meetsSelectors decides by namespaceSelector and objectSelector. If both keep the request away, both are named.
func (r Request) meetsSelectors(h Hook) Verdict {
	space, object := r.meetsNamespaces(h), r.meetsObjects(h)
	switch {
	case space.Filter == NamespaceSelector && object.decided():
		space.Why += "; and objectSelector: " + object.Why
		return space
	case object.Filter == ObjectSelector || !space.decided():
		return object
	}
	return space
}

// meetsNamespaces decides by namespaceSelector, which concerns Namespaces and what is in one.
func (r Request) meetsNamespaces(h Hook) Verdict {
	if selector.Empty(h.NamespaceSelector) || r.Namespace == "" && !r.isNamespaces() {
		return Verdict{}
	}
	if _, err := metav1.LabelSelectorAsSelector(h.NamespaceSelector); err != nil {
		return unusable(NamespaceSelector, err)
	}
	of, err := r.namespaceLabels()
	wanted := selector.Requirements(h.NamespaceSelector)
	if err != nil { // but for one label
		known := labels.Set{corev1.LabelMetadataName: r.Namespace}
		for _, requirement := range wanted {
			if requirement.Key == corev1.LabelMetadataName && !meets(known, requirement) {
				return skip(NamespaceSelector, "%s", missText(requirement, known, "namespace "+r.Namespace))
			}
		}
		wanted = slices.DeleteFunc(wanted, func(w metav1.LabelSelectorRequirement) bool { return w.Key == corev1.LabelMetadataName })
		if len(wanted) == 0 {
			return Verdict{}
		}
		return skip(Unknown, "namespaceSelector: %s, and the labels of namespace %s are not known: %v", textOf(wanted), r.Namespace, err)
	}
	v := mismatch(NamespaceSelector, wanted, of, "namespace "+r.Namespace)
	if r.isNamespaces() && r.Operation != admissionv1.Delete {
		v.Fix = ""
	}
	return v
}

// unusable is the verdict for a selector that cannot be parsed; the API server would not store it.
func unusable(filter string, err error) Verdict {
	v := skip(filter, "cannot be used: %v", err)
	v.Refuses = true
	return v
}

// namespaceLabels returns the labels that a namespaceSelector is compared with: the namespace's, or for a
// Namespace that is written, the new ones.
func (r Request) namespaceLabels() (labels.Set, error) {
	written := r.Operation == admissionv1.Create || r.Operation == admissionv1.Update
	if r.isNamespaces() && r.subresource() == "" && written {
		return named(labelsOf(r.Object.Raw), r.Namespace), nil
	}
	if r.InNamespace.Err != nil {
		return nil, r.InNamespace.Err
	}
	return named(r.InNamespace.Labels, r.Namespace), nil
}

// named returns labels of a namespace with the label that the API server sets.
func named(of labels.Set, name string) labels.Set {
	if name == "" {
		return of
	}
	return labels.Merge(of, labels.Set{corev1.LabelMetadataName: name})
}

// meetsObjects decides by objectSelector: the object before or after the request has to match.
func (r Request) meetsObjects(h Hook) Verdict {
	if selector.Empty(h.ObjectSelector) {
		return Verdict{}
	}
	compiled, err := metav1.LabelSelectorAsSelector(h.ObjectSelector)
	if err != nil {
		return unusable(ObjectSelector, err)
	}
	wanted := selector.Requirements(h.ObjectSelector)
	if r.Operation == admissionv1.Connect {
		return skip(ObjectSelector, "%s, and the object of a CONNECT request has no labels", textOf(wanted))
	}
	var last labels.Set
	for _, raw := range [][]byte{r.OldObject.Raw, r.Object.Raw} {
		if isAbsent(raw) {
			continue
		}
		if last = labelsOf(raw); compiled.Matches(last) {
			return Verdict{}
		}
	}
	if r.Operation == admissionv1.Update && !labels.Equals(labelsOf(r.OldObject.Raw), last) {
		v := mismatch(ObjectSelector, wanted, last, "the new object")
		v.Why += "; the old one does not match either"
		return v
	}
	return mismatch(ObjectSelector, wanted, last, "the object")
}

// labelsOf returns the labels of an object.
func labelsOf(raw []byte) labels.Set {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	return object.Labels
}

// missText says what a part of a selector asks for, and what is there.
func missText(r metav1.LabelSelectorRequirement, of labels.Set, whose string) string {
	is, has := of[r.Key]
	switch {
	case r.Operator == metav1.LabelSelectorOpNotIn && r.Key == corev1.LabelMetadataName:
		return "leaves out " + whose
	case r.Operator == metav1.LabelSelectorOpNotIn:
		return fmt.Sprintf("leaves out %s: %s, which %s has", r.Key, is, whose)
	case r.Operator == metav1.LabelSelectorOpDoesNotExist:
		return fmt.Sprintf("%s, as %s has", Asks(r), whose)
	case has && r.Operator == metav1.LabelSelectorOpIn:
		return fmt.Sprintf("%s, and %s has %s: %s", Asks(r), whose, r.Key, is)
	}
	return fmt.Sprintf("%s, which %s does not have", Asks(r), whose)
}

// meets reports whether labels meet a part of a selector.
func meets(of labels.Set, r metav1.LabelSelectorRequirement) bool {
	c := selector.Only(r)
	return c.Matches(of)
}

// textOf formats the requirements of a selector.
func textOf(wanted []metav1.LabelSelectorRequirement) string {
	texts := make([]string, len(wanted))
	for i, w := range wanted {
		texts[i] = Asks(w)
	}
	return strings.Join(texts, " and ")
}

// mismatch names the parts of a selector that labels do not meet. The labels of a namespace have a command that sets them.
func mismatch(filter string, wanted []metav1.LabelSelectorRequirement, of labels.Set, whose string) Verdict {
	var misses, sets []string
	fixable := filter == NamespaceSelector
	for _, w := range wanted {
		if meets(of, w) {
			continue
		}
		misses = append(misses, missText(w, of, whose))
		fixable = fixable && w.Operator == metav1.LabelSelectorOpIn && w.Key != corev1.LabelMetadataName
		if fixable {
			sets = append(sets, w.Key+"="+w.Values[0])
		}
	}
	if len(misses) == 0 {
		return Verdict{}
	}
	v := skip(filter, "%s", strings.Join(misses, "; "))
	if fixable {
		v.Fix = "kubectl label --overwrite " + whose + " " + strings.Join(sets, " ")
	}
	return v
}
