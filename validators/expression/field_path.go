package expression

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// fieldPath is a place in an object, as the policy names it.
type fieldPath []part

// part is a name or an index.
type part struct {
	name    string
	index   int
	isIndex bool
}

var errPath = errors.New("must be a path such as spec.replicas, spec.containers[0] or metadata.labels['app']")

// parsePath parses a path. A dot at its beginning is allowed, as CRDs write it.
func parsePath(text string) (path fieldPath, err error) {
	rest := text
	if rest != "" && rest[0] != '[' && rest[0] != '.' {
		rest = "." + rest
	}
	for rest != "" {
		var next part
		if next, rest, err = parsePart(rest); err != nil {
			return nil, err
		}
		path = append(path, next)
	}
	if len(path) == 0 {
		return nil, errPath
	}
	return path, nil
}

// parsePart parses the part at the beginning of a text: .name, [0] or ['name'].
func parsePart(text string) (p part, rest string, err error) {
	if name, ok := strings.CutPrefix(text, "."); ok {
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		if !identifier.MatchString(name[:end]) {
			return p, "", errPath
		}
		return part{name: name[:end]}, name[end:], nil
	}
	for _, quote := range []string{"'", `"`} {
		if key, ok := strings.CutPrefix(text, "["+quote); ok {
			name, rest, found := strings.Cut(key, quote+"]")
			if !found || name == "" {
				return p, "", errPath
			}
			return part{name: name}, rest, nil
		}
	}
	number, rest, found := strings.Cut(strings.TrimPrefix(text, "["), "]")
	index, err := strconv.ParseUint(number, 10, 31)
	if err != nil || !found || text[0] != '[' {
		return p, "", errPath
	}
	return part{index: int(index), isIndex: true}, rest, nil
}

// field returns the path for problems, without a path the object's.
func (f fieldPath) field() *field.Path {
	if len(f) == 0 {
		return field.NewPath(objectName)
	}
	var path *field.Path
	for _, p := range f {
		switch {
		case p.isIndex:
			path = path.Index(p.index)
		case identifier.MatchString(p.name):
			path = path.Child(p.name)
		default:
			path = path.Key(p.name)
		}
	}
	return path
}

// value returns the number, text or truth value at the path; field.OmitValueType{} if there is none.
func (f fieldPath) value(object document.Raw) any {
	for _, p := range f {
		if p.isIndex {
			object = element(object, p.index)
		} else {
			object = object.Member(p.name)
		}
	}
	switch object.Kind() {
	case document.Text:
		return object.Text()
	case document.Number, document.True, document.False:
		return new(reader).value(object).Value()
	}
	return field.OmitValueType{}
}

// element returns an element of a list.
func element(list document.Raw, index int) document.Raw {
	if list.Kind() != document.Array {
		return document.Raw{}
	}
	children := list.Children()
	for range index {
		children.Next()
	}
	return children.Next()
}
