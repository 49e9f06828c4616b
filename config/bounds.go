package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of a policy file, so that the memory and the time that it takes are known before it is decoded.
const (
	// MaxFile is the maximum size of a policy file in bytes, the same as of a ConfigMap. Aliases count as what they stand for.
	MaxFile = 1 << 20
	// MaxValues is the maximum number of values in a policy file: mappings, lists, keys, and what they contain.
	MaxValues = 100_000
	// MaxElements is the maximum number of elements of a list or a mapping, unless the word most of the tag schema says otherwise.
	MaxElements = 1000
	// maxProblems is the maximum number of problems that are reported.
	maxProblems = 100
)

// checkSize returns an error for a file that is too large. A file that is not YAML has no size.
func checkSize(raw []byte) error {
	size := fileSize{values: marks(raw) / 2, bytes: len(raw)} // a value has one mark or more around it, so that some of the marks are in texts
	if size.values <= MaxValues && size.bytes <= MaxFile {
		var root yaml.Node
		if yaml.Unmarshal(raw, &root) == nil && len(root.Content) > 0 {
			size = sizeOf(root.Content[0], map[*yaml.Node]fileSize{})
		}
	}
	if size.values > MaxValues || size.bytes > MaxFile {
		return fmt.Errorf("the policy has more than %d values, or more than %d MiB, aliases written out; "+
			"join entries that differ only in a value, and leave out what is not needed", MaxValues, MaxFile>>20)
	}
	return nil
}

// marks returns the number of bytes in a file that may begin or end a value.
func marks(raw []byte) (n int) {
	for _, b := range raw {
		if strings.IndexByte(",:-[{?\n", b) >= 0 {
			n++
		}
	}
	return n
}

// fileSize is the size of a part of a file.
type fileSize struct{ values, bytes int }

// sizeOf returns the size of a node with its aliases written out. anchors has the sizes of the nodes that aliases stand for.
func sizeOf(n *yaml.Node, anchors map[*yaml.Node]fileSize) fileSize {
	if known, found := anchors[n]; found {
		return known
	}
	if n.Anchor != "" {
		anchors[n] = fileSize{MaxValues + 1, 0} // of a node that contains itself
	}
	size := fileSize{1, len(n.Value)}
	for _, part := range n.Content {
		size.add(sizeOf(part, anchors))
	}
	if n.Kind == yaml.AliasNode {
		size = sizeOf(n.Alias, anchors)
	}
	if n.Anchor != "" {
		anchors[n] = size
	}
	return size
}

// add adds the size of a part, as far as it matters.
func (s *fileSize) add(part fileSize) {
	s.values, s.bytes = min(s.values+part.values, MaxValues+1), min(s.bytes+part.bytes, MaxFile+1)
}

// Most returns how many elements a list or a mapping may have at most whose field has a tag.
func Most(tag reflect.StructTag) int {
	for rule := range strings.SplitSeq(tag.Get("schema"), ",") {
		if text, found := strings.CutPrefix(rule, "most="); found {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
	}
	return MaxElements
}

// tooMany returns the problem of a list or a mapping with more elements than it may have.
func tooMany(n, most int, at *field.Path) field.ErrorList {
	if n <= most {
		return nil
	}
	return field.ErrorList{{Type: field.ErrorTypeTooMany, Field: at.String(), BadValue: n,
		Detail: fmt.Sprintf("must have at most %d elements; join those that differ only in a value, or leave some out", most)}}
}
