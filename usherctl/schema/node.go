// Package schema describes the files that people write for usher as JSON Schemas, for editors, and as a page. It reads the
// types that the files are decoded into, and their tags:
//
//	doc      what the field is
//	default  what holds if it is left out
//	schema   what it must be, apart from its type, separated by commas: required; min=N and max=N of a number; items=N and
//	         most=N elements; enum=A|B; is=NAME, a text of Texts, or one of several names that the program knows;
//	         keys=NAME or keys=A|B of a mapping
//
// A field _ has the rule either=A|B: one of several fields must be there.
//
// What is said of a list or a mapping with enum, is, min and max holds for its elements.
package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Draft is the draft of JSON Schema that editors know best.
const Draft = "http://json-schema.org/draft-07/schema#"

// Node is a schema, or the part of one for a value.
type Node struct {
	Schema      string `json:"$schema,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Ref         string `json:"$ref,omitempty"`
	Type        any    `json:"type,omitempty"`
	Enum        []any  `json:"enum,omitempty"`
	Default     any    `json:"default,omitempty"`
	Examples    []any  `json:"examples,omitempty"`

	Minimum      json.Number `json:"minimum,omitempty"`
	Maximum      json.Number `json:"maximum,omitempty"`
	MinLength    int         `json:"minLength,omitempty"`
	MaxLength    int         `json:"maxLength,omitempty"`
	Pattern      string      `json:"pattern,omitempty"`
	PatternError string      `json:"patternErrorMessage,omitempty"` // shown by editors

	Items    *Node `json:"items,omitempty"`
	MinItems int   `json:"minItems,omitempty"`
	MaxItems int   `json:"maxItems,omitempty"`

	Properties    map[string]*Node `json:"properties,omitempty"`
	Required      []string         `json:"required,omitempty"`
	PropertyNames *Node            `json:"propertyNames,omitempty"`
	MinProperties int              `json:"minProperties,omitempty"`
	MaxProperties int              `json:"maxProperties,omitempty"`
	Additional    any              `json:"additionalProperties,omitempty"`

	AnyOf []*Node `json:"anyOf,omitempty"`
	If    *Node   `json:"if,omitempty"`
	Then  *Node   `json:"then,omitempty"`
	Else  *Node   `json:"else,omitempty"`

	Definitions map[string]*Node `json:"definitions,omitempty"`

	// Fields are the names of Properties in the order of the type, Each is the node of the values of a mapping, Kind is the
	// type, Otherwise the tag default, and Word what its texts are names of.
	Fields    []string     `json:"-"`
	Each      *Node        `json:"-"`
	Kind      reflect.Type `json:"-"`
	Otherwise string       `json:"-"`
	Word      string       `json:"-"`
}

// JSON returns the schema as it is printed.
func (n *Node) JSON() []byte {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", " ")
	if err := to.Encode(n); err != nil {
		panic(err) // nodes consist of texts and numbers
	}
	return text.Bytes()
}
