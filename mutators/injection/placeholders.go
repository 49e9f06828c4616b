package injection

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Placeholder is a value of the pod that a text of the policy refers to, such as $(usher.namespace).
type Placeholder string

// The placeholders. A label is Placeholder(LabelPlaceholder + KEY).
const (
	NamespacePlaceholder Placeholder = "namespace" // the namespace of the request
	NamePlaceholder      Placeholder = "name"      // metadata.name or, while it is empty, metadata.generateName
	OwnerPlaceholder     Placeholder = "owner"     // the name of the controller in metadata.ownerReferences; empty without one

	LabelPlaceholder = "labels/" // the prefix of a label's key
)

// Label returns the key if the placeholder is a label of the pod.
func (p Placeholder) Label() (key string, ok bool) {
	return strings.CutPrefix(string(p), LabelPlaceholder)
}

// placeholderStart begins every placeholder. Kubernetes expands $(NAME) in command, args and env in the same form, after
// admission, and leaves unknown names as they are; the prefix distinguishes the two.
const placeholderStart = "$(usher."

// Text is a text of the policy with placeholders.
type Text struct {
	literals     []string // one more than placeholders: the text around them
	placeholders []Placeholder
}

// ParseText reads a text with placeholders. As in Kubernetes, two dollar signs are a dollar sign that begins no
// reference; they are kept, because Kubernetes replaces them by one.
func ParseText(text string) (Text, error) {
	var parsed Text
	start := 0
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "$$"):
			i++
		case strings.HasPrefix(text[i:], placeholderStart):
			name, _, closed := strings.Cut(text[i+len(placeholderStart):], ")")
			placeholder, err := placeholderOf(name)
			if !closed {
				err = fmt.Errorf("%s is not closed by )", text[i:])
			}
			if err != nil {
				return Text{}, err
			}
			parsed.literals = append(parsed.literals, text[start:i])
			parsed.placeholders = append(parsed.placeholders, placeholder)
			start = i + len(placeholderStart) + len(name) + len(")")
			i = start - 1
		}
	}
	parsed.literals = append(parsed.literals, text[start:])
	return parsed, nil
}

// placeholderOf returns the placeholder that is written as $(usher.NAME).
func placeholderOf(name string) (Placeholder, error) {
	switch p := Placeholder(name); p {
	case NamespacePlaceholder, NamePlaceholder, OwnerPlaceholder:
		return p, nil
	}
	if key, ok := strings.CutPrefix(name, "labels['"); ok {
		if key, ok = strings.CutSuffix(key, "']"); ok && len(validation.IsQualifiedName(key)) == 0 {
			return Placeholder(LabelPlaceholder + key), nil
		}
	}
	return "", fmt.Errorf("%s%s) is not a placeholder; there are $(usher.namespace), $(usher.name), $(usher.owner) and $(usher.labels['KEY'])",
		placeholderStart, name)
}

// Constant reports whether the text has no placeholder.
func (t Text) Constant() bool { return len(t.placeholders) == 0 }

// Expand returns the text with its placeholders replaced by their values. The first error of value is returned.
func (t Text) Expand(value func(Placeholder) (string, error)) (string, error) {
	var b strings.Builder
	for i, p := range t.placeholders {
		text, err := value(p)
		if err != nil {
			return "", err
		}
		b.WriteString(t.literals[i])
		b.WriteString(text)
	}
	b.WriteString(t.literals[len(t.placeholders)])
	return b.String(), nil
}
