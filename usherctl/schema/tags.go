package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Text is a kind of text, by which a tag names it.
type Text struct {
	Pattern string
	Most    int // characters; 0: any number
	Is      string
}

// Texts are the kinds of text. A kind without a pattern is described only: no pattern could decide it.
var Texts = map[string]Text{
	"name":        {`\S`, 0, "must not be empty"},
	"not-empty":   {`.`, 0, "must not be empty"},
	"exact-name":  {`^[^*]+$`, 0, "must be an exact name, without *"},
	"group":       {`^[^*\s]([^*]*[^*\s])?$`, 0, "must be the exact name of a group"},
	"port-name":   {`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, 15, "must be a name of a-z, 0-9 and -"},
	"name-part":   {`^[-a-z0-9.]+$`, 251, "must be of a-z, 0-9, - and ."},
	"dns-label":   {`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, 63, "must be a name of a-z, 0-9 and -"},
	"namespace":   {`^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`, 63, "must be the name of a namespace, or *"},
	"object-name": {`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, 253, "must be a name of a-z, 0-9, - and ."},
	"label-key": {`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`, 0,
		"must be the key of a label, such as example.com/team"},
	"key": {`^([A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`, 0,
		"must be the key of a label or an annotation, such as example.com/team"},
	"label-value":     {`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`, 63, "must be the value of a label"},
	"tree-id":         {`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`, 63, "must be the ID of a tree"},
	"env-name":        {`^[-._a-zA-Z][-._a-zA-Z0-9]*$`, 0, "must be the name of a variable"},
	"user":            {`^\S[^*]*(:\*)?$`, 0, "must be the exact name of a user; the last part, after a colon, may be *"},
	"service-account": {`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/(\*|[-a-z0-9.]+)$`, 0, "must be NAMESPACE/NAME, or NAMESPACE/*"},
	"resource":        {`^[^/A-Z]+(/[^/A-Z]*)?$`, 0, "must be a resource in the plural and in lower case, such as pods or pods/exec"},
	"ratio":           {`^0{0,3}[1-9]\d{0,3}(\.\d{1,6})?$`, 0, "must be a decimal number of at least 1 in quotes, such as \"1.5\""},
	"quantity":        {`^\+?[0-9.]+([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$`, 0, "must be an amount, such as 500m or 1Gi"},
	"moment": {`^(\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[-+]\d{2}:\d{2}))?)?$`, 0,
		"must be a day, such as 2027-01-31, or a moment, such as 2027-01-31T18:00:00Z"},
	"image-pattern": {`^(\*\*|[^/]+(/[^/]+)+)$`, 0, "must be REGISTRY/REPOSITORY, such as docker.io/library/*, or REGISTRY/**"},
	"image-tag":     {`^[A-Za-z0-9._*-]+$`, 0, "must be a tag; * stands for any characters"},
	"path":          {`^/`, 0, "must begin with /, as in /mutate-pods"},
	"cel":           {`\S`, 0, "must be an expression in CEL"},
	"expression":    {"", 0, "must be a regular expression in RE2 syntax"},
	"field-path":    {"", 0, "must be a path of fields, such as spec.replicas"},
}

// rules returns what the tag schema says, one rule each.
func rules(tag reflect.StructTag) []string { return strings.Split(tag.Get("schema"), ",") }

// tagged adds what a tag says to a node.
func (g *generator) tagged(n *Node, tag reflect.StructTag) {
	n.Description, n.Otherwise = tag.Get("doc"), tag.Get("default")
	n.Default = n.typed(n.Otherwise)
	each := n
	if n.Items != nil {
		each = n.Items
	} else if n.Each != nil {
		if each = n.Each; each.Each != nil {
			each = each.Each // a mapping of mappings
		}
	}
	for _, rule := range rules(tag) {
		if name, value, _ := strings.Cut(rule, "="); name != "" && name != "required" {
			g.rule(n, each, name, value)
		}
	}
}

// rule adds a rule to a node, or to that of each of its elements.
func (g *generator) rule(n, each *Node, name, value string) {
	switch name {
	case "min":
		each.Minimum = json.Number(value)
	case "max":
		each.Maximum = json.Number(value)
	case "items":
		if n.Items != nil {
			n.MinItems = number(value)
		} else {
			n.MinProperties = number(value)
		}
	case "most":
		if n.Items != nil {
			n.MaxItems = number(value)
		} else {
			n.MaxProperties = number(value)
		}
	case "enum":
		each.Enum = texts(strings.Split(value, "|"))
	case "is":
		g.text(each, value)
	case "keys":
		g.keys(n, value)
	default:
		panic(fmt.Sprintf("a tag says schema:\"%s=%s\"; its words are required, min, max, items, most, enum, is and keys", name, value))
	}
}

// text makes a node that of a kind of text, of one of the names that the program knows, or of one of several words.
func (g *generator) text(n *Node, kind string) {
	if text, found := Texts[kind]; found {
		n.Pattern, n.MaxLength, n.PatternError = text.Pattern, text.Most, text.Is
		return
	}
	if names, found := g.words[kind]; found {
		n.Enum, n.Word = texts(names), kind
		return
	}
	n.Enum = texts(strings.Split(kind, "|"))
}

// either says that one of several fields must be there, or several together: either=A+B|C.
func (n *Node) either(tag reflect.StructTag) {
	for _, rule := range rules(tag) {
		_, groups, _ := strings.Cut(rule, "either=")
		for group := range strings.SplitSeq(groups, "|") {
			names := strings.Split(group, "+")
			n.AnyOf = append(n.AnyOf, &Node{Required: names})
			n.Required = slices.DeleteFunc(n.Required, func(name string) bool { return slices.Contains(names, name) })
		}
	}
}

// keys says what the keys of a mapping are. Where they are few, each is a property: editors complete it.
func (g *generator) keys(n *Node, kind string) {
	names := &Node{}
	if g.text(names, kind); names.Enum == nil {
		n.PropertyNames = names
		return
	}
	n.Additional = false
	n.Word = names.Word
	for _, name := range names.Enum {
		n.add(name.(string), n.Each)
	}
}

func texts(names []string) (all []any) {
	for _, name := range names {
		all = append(all, name)
	}
	return all
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("a tag says %s, which is no number", text))
	}
	return n
}

// typed returns the value of a default; nil if it is described in words.
func (n *Node) typed(text string) any {
	switch {
	case n.Type == "boolean" && text != "":
		return text == "true"
	case n.Type == "string" && text != "" && !strings.Contains(text, " "):
		return text
	}
	return nil
}
