package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/internal/selector"
)

// nearMiss is a label of namespaces that a selector would match if it were spelt as the selector has it.
type nearMiss struct {
	is, meant  string // KEY=VALUE
	namespaces []string
	leftIn     bool // the selector was meant to leave the namespaces out
}

// text says what is misspelt.
func (m nearMiss) text() string {
	verb := "asks for"
	if m.leftIn {
		verb = "leaves out"
	}
	return fmt.Sprintf("The namespaces %s have %s, and the selector %s %s. Did you mean that? Correct the one that is misspelt.",
		strings.Join(m.namespaces, ", "), m.is, verb, m.meant)
}

// nearMisses returns the misspelt labels of the namespaces that a selector does not match, one for each spelling.
func nearMisses(s *metav1.LabelSelector, namespaces []corev1.Namespace) (all []nearMiss) {
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil
	}
	for _, n := range namespaces {
		if compiled.Matches(labels.Set(n.Labels)) {
			continue
		}
		if is, meant := misspelt(s, compiled, n.Labels); is != "" {
			all = withMiss(all, nearMiss{is: is, meant: meant, namespaces: []string{n.Name}})
		}
	}
	return all
}

// withMiss returns near misses with one more.
func withMiss(all []nearMiss, m nearMiss) []nearMiss {
	i := slices.IndexFunc(all, func(other nearMiss) bool { return m.is == other.is && m.meant == other.meant })
	if i < 0 {
		return append(all, m)
	}
	all[i].namespaces = append(all[i].namespaces, m.namespaces...)
	return all
}

// notLeftOut returns the namespaces that a selector does not leave out because it misspells a label, or the name of a namespace.
func notLeftOut(s *metav1.LabelSelector, namespaces []corev1.Namespace) (all []nearMiss) {
	has := func(key, value string) bool {
		return slices.ContainsFunc(namespaces, func(n corev1.Namespace) bool {
			is, found := n.Labels[key]
			return found && (value == "" || is == value)
		})
	}
	for _, r := range selector.Requirements(s) {
		if r.Operator != metav1.LabelSelectorOpNotIn {
			continue
		}
		for _, n := range namespaces {
			for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
				for _, value := range r.Values {
					of := misspells(key, r.Key) && n.Labels[key] == value && !has(r.Key, "")
					name := r.Key == corev1.LabelMetadataName && key == r.Key && misspells(n.Name, value) && !has(key, value)
					if of || name {
						all = withMiss(all, nearMiss{key + "=" + n.Labels[key], r.Key + "=" + value, []string{n.Name}, true})
					}
				}
			}
		}
	}
	return all
}

// misspelt returns the label that keeps a selector from matching, and how the selector spells it; "" if there is none.
func misspelt(s *metav1.LabelSelector, compiled labels.Selector, of map[string]string) (is, meant string) {
	for _, r := range selector.Requirements(s) {
		if r.Key == corev1.LabelMetadataName {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(of)) {
			for _, value := range append(slices.Clone(r.Values), of[key]) {
				near := key == r.Key && misspells(of[key], value) || misspells(key, r.Key) && of[key] == value
				if near && compiled.Matches(labels.Merge(of, labels.Set{r.Key: value})) {
					return key + "=" + of[key], r.Key + "=" + value
				}
			}
		}
	}
	return "", ""
}

// misspells reports whether a word is another one with one letter too many, too few or wrong, or in another case. Words that
// differ in a digit, or in their last letter, are names of a series, such as team-a and team-b.
func misspells(is, meant string) bool {
	if is == meant || len(meant) < 4 {
		return false
	}
	if strings.EqualFold(is, meant) {
		return true
	}
	i := 0
	for i < min(len(is), len(meant)) && is[i] == meant[i] {
		i++
	}
	a, b := is[i:], meant[i:]
	switch {
	case a != "" && a[1:] == b:
		return !unicode.IsDigit(rune(a[0]))
	case b != "" && b[1:] == a:
		return !unicode.IsDigit(rune(b[0]))
	}
	return len(a) > 1 && len(b) > 1 && a[1:] == b[1:] && !unicode.IsDigit(rune(a[0])) && !unicode.IsDigit(rune(b[0]))
}
