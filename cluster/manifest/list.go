package manifest

import (
	"bytes"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// longList is the size of a list whose items are documents of their own, so that limits hold for each. Shorter ones are within the limits.
const longList = 1 << 20

// items returns the items of a long list, and the type that they have if they name none. Nil: the text is something else, or a list in
// YAML that is not written as kubectl writes one.
func (t text) items() (itemOf metav1.TypeMeta, items []text) {
	if len(t.raw) < longList {
		return itemOf, nil
	}
	var list struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	if t.json {
		if json.Unmarshal(t.raw, &list) != nil {
			return itemOf, nil
		}
		for _, item := range list.Items {
			items = append(items, text{raw: item, line: t.line, json: true})
		}
	} else {
		var head []byte
		if head, items = t.yamlItems(); yaml.UnmarshalStrict(head, &list) != nil {
			return itemOf, nil
		}
	}
	element, isList := strings.CutSuffix(list.Kind, "List")
	if !isList {
		return itemOf, nil
	}
	if element != "" {
		itemOf = metav1.TypeMeta{APIVersion: list.APIVersion, Kind: element}
	}
	return itemOf, items
}

// yamlItems cuts a list in YAML where a line begins with the dash of the first item, which becomes a space. head is what is beside items.
func (t text) yamlItems() (head []byte, items []text) {
	line, indent, within := t.line-1, "", false
	for raw := range bytes.Lines(t.raw) {
		line++
		content := bytes.TrimRight(raw, " \r\n")
		switch spaces := len(raw) - len(bytes.TrimLeft(raw, " ")); {
		case string(content) == "items:":
			within = true
		case !within:
			head = append(head, raw...)
		case items == nil && isItem(content, spaces) || items != nil && spaces == len(indent) && isItem(content, spaces):
			indent = string(raw[:spaces])
			items = append(items, text{raw: append([]byte(indent+" "), raw[spaces+1:]...), line: line})
		case len(content) > 0 && spaces <= len(indent): // the next field
			within, head = false, append(head, raw...)
		case items != nil:
			last := &items[len(items)-1]
			last.raw = append(last.raw, raw...)
		}
	}
	return head, items
}

// isItem reports whether a line has an item's dash after some spaces.
func isItem(line []byte, spaces int) bool {
	return len(line) > spaces && line[spaces] == '-' && (len(line) == spaces+1 || line[spaces+1] == ' ')
}
