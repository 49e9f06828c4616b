package policytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"usher.dev/usher/usherctl/yamlnode"
)

// share returns how many parts are shown. Missing are the largest parts that are not, with their lines.
func (t *policyTree) share() PolicyShare {
	s := PolicyShare{File: t.file, Share: Share{Missing: []string{}}}
	shown, all := 0, 0
	var within []any
	for _, p := range t.parts {
		if p.step != "" || p.unjudged() {
			continue
		}
		if p.leaf {
			all++
			if p.shown {
				shown++
			}
		}
		if p.shown || within != nil && hasPrefix(p.path, within) || t.anyShownBelow(p) && !p.leaf {
			continue
		}
		within = p.path
		s.Missing = append(s.Missing, fmt.Sprintf("%s:%d  %s", t.file, t.lineOf(p.path), t.nameOf(p.path)))
	}
	s.count(shown, all)
	return s
}

func (t *policyTree) anyShownBelow(of *part) bool {
	return slices.ContainsFunc(t.parts, func(p *part) bool { return p.shown && len(p.path) > len(of.path) && hasPrefix(p.path, of.path) })
}

func hasPrefix(path, prefix []any) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// notMeasured says what cannot be left out.
func (t *policyTree) notMeasured() (texts []string) {
	sections, _ := t.value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(unmeasured)) {
		if _, found := sections[name]; found {
			texts = append(texts, fmt.Sprintf("%s of %s, %s", name, t.file, unmeasured[name]))
		}
	}
	for _, path := range t.needed {
		texts = append(texts, fmt.Sprintf("%s:%d  %s, without which the policy is invalid", t.file, t.lineOf(path), t.nameOf(path)))
	}
	for _, p := range t.parts {
		switch {
		case !p.unjudged():
		case p.step != "":
			texts = append(texts, fmt.Sprintf("step %s under %s: without it %v", p.step, t.file, p.err))
		default:
			texts = append(texts, fmt.Sprintf("%s:%d  %s: without it %v", t.file, t.lineOf(p.path), t.nameOf(p.path), p.err))
		}
	}
	return texts
}

// lineOf returns the line of a part.
func (t *policyTree) lineOf(path []any) int {
	parts := make([]string, len(path))
	for i, step := range path {
		parts[i] = fmt.Sprint(step)
	}
	return yamlnode.Line(t.lines, parts)
}

// nameOf returns the path of a part as text, with the names of elements that have one: labelRules[team].pattern.
func (t *policyTree) nameOf(path []any) string {
	var b strings.Builder
	value := t.value
	for _, step := range path {
		switch step := step.(type) {
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
			value = value.(map[string]any)[step]
		case int:
			value = value.([]any)[step]
			fmt.Fprintf(&b, "[%s]", elementName(value, step))
		}
	}
	return b.String()
}

// elementName returns the name of an element of a list: its name, the element itself if it is a short text, or its index.
func elementName(value any, index int) string {
	switch value := value.(type) {
	case map[string]any:
		if name, ok := value["name"].(string); ok {
			return name
		}
	case string:
		if len(value) <= 40 {
			return value
		}
	case json.Number:
		return string(value)
	}
	return fmt.Sprint(index)
}
