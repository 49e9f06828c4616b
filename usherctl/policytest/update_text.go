package policytest

import (
	"bytes"
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/usherctl/yamlnode"
)

// expectBlock is where a file holds the member expect of a case.
type expectBlock struct {
	from, to int // the bytes, from the key to the last line that belongs to it
	node     yaml.Node
}

// errFlow is returned for cases that are written in one line.
var errFlow = errors.New("expect cannot be updated where it is written in braces together with other keys: begin a line with the key expect")

// findExpect finds the member expect of a case in its file.
func findExpect(text []byte, c *Case) (b expectBlock, err error) {
	documents, _ := manifest.Documents(c.Place.File, text)
	i := slices.IndexFunc(documents, func(d manifest.Document) bool { return d.Document == c.Place.Document })
	if i < 0 {
		return b, errors.New("the file has changed: run the command again")
	}
	d := documents[i]
	top := yamlnode.Parse(d.Raw)
	if top == nil {
		return b, errFlow
	}
	key, _ := yamlnode.Child(top, "expect")
	if key == nil || top.Style&yaml.FlowStyle != 0 || key.Column != 1 {
		return b, errFlow
	}
	end := bytes.Count(bytes.TrimSuffix(d.Raw, []byte("\n")), []byte("\n")) + 2 // the line after the document
	for i := 0; i < len(top.Content); i += 2 {
		if line := top.Content[i].Line; line > key.Line {
			end = min(end, line)
		}
	}
	b.from, b.to = lineAt(text, d.Line+key.Line-1), lineAt(text, d.Line+end-1)
	b.to = b.from + len(withoutTrailing(text[b.from:b.to]))
	return b, yaml.Unmarshal(text[b.from:b.to], &b.node)
}

// lineAt returns the index at which a line begins, counted from 1.
func lineAt(text []byte, line int) int {
	at := 0
	for range line - 1 {
		next := bytes.IndexByte(text[at:], '\n')
		if next < 0 {
			return len(text)
		}
		at += next + 1
	}
	return at
}

// withoutTrailing returns a text without the empty lines and the comments at its end that begin a line: they belong to what
// follows.
func withoutTrailing(text []byte) []byte {
	for {
		trimmed := bytes.TrimRight(text, "\r\n")
		last := bytes.LastIndexByte(trimmed, '\n') + 1
		if line := trimmed[last:]; len(line) > 0 && line[0] != '#' && len(bytes.TrimSpace(line)) > 0 {
			end := bytes.IndexByte(text[len(trimmed):], '\n')
			if end < 0 {
				return text
			}
			return text[:len(trimmed)+end+1]
		}
		if last == 0 {
			return text
		}
		text = text[:last]
	}
}

// with returns the text with other values of some members. The comments stay, apart from those within the values.
func (b expectBlock) with(text []byte, values map[string]any) ([]byte, error) {
	_, expect := yamlnode.Child(b.node.Content[0], "expect")
	for _, key := range members {
		value, changes := values[key]
		if !changes {
			continue
		}
		_, node := yamlnode.Child(expect, key)
		if node == nil {
			return nil, errFlow
		}
		fresh, err := nodeOf(value)
		if err != nil {
			return nil, err
		}
		fresh.HeadComment, fresh.LineComment, fresh.FootComment = node.HeadComment, node.LineComment, node.FootComment
		if node.Kind == yaml.MappingNode && node.Style&yaml.FlowStyle != 0 && key == "steps" {
			fresh.Style |= yaml.FlowStyle
		}
		if expect.Style&yaml.FlowStyle != 0 && (fresh.Kind != yaml.ScalarNode || len(fresh.Value) > 60) {
			expect.Style &^= yaml.FlowStyle
		}
		*node = *fresh
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&b.node); err != nil {
		return nil, err
	}
	fresh := out.Bytes()
	if bytes.Contains(text[b.from:b.to], []byte("\r\n")) {
		fresh = bytes.ReplaceAll(fresh, []byte("\n"), []byte("\r\n"))
	}
	return slices.Concat(text[:b.from], fresh, text[b.to:]), nil
}

// nodeOf returns a JSON value as YAML.
func nodeOf(value any) (*yaml.Node, error) {
	text, err := kyaml.JSONToYAML(asJSON(value))
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	return document.Content[0], nil
}
