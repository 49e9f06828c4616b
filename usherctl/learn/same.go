package learn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"usher.dev/usher/cluster/manifest"
)

// Same is that what a file says, or the files of a folder together, is as it was. Order, quotes, comments and the files that
// objects are in do not matter, and null is as good as nothing.
type Same struct {
	File string   `json:"file"`
	As   string   `json:"as,omitempty"`  // solution; empty: as at the start
	But  []string `json:"but,omitempty"` // fields that may differ, with dots; lists are passed through
}

// unchanged returns a description of the first difference, or "".
func (l Lesson) unchanged(s Same, folder string) (string, error) {
	files, err := l.Start()
	if err != nil {
		return "", err
	}
	if s.As == "solution" {
		solution, err := l.Solution()
		if err != nil {
			return "", err
		}
		maps.Copy(files, solution)
	}
	maps.DeleteFunc(files, func(name string, _ []byte) bool { return name != s.File && !strings.HasPrefix(name, s.File+"/") })
	want, err := s.read(files)
	if err != nil {
		return "", err
	}
	mine, err := filesAt(folder, s.File)
	if err != nil {
		return err.Error(), nil
	}
	got, err := s.read(mine)
	if err != nil {
		return "", Unreadable{err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, known := want[name]; !known {
			return name + " is not of this lesson", nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch g := difference(want[name], got[name], ""); {
		case g == nil:
		case g.at == "" && g.got == nil:
			return name + " is missing", nil
		case s.As == "" && g.want != nil:
			return fmt.Sprintf("%s: %v, and was %s", name, g, shown(g.want)), nil
		default:
			return fmt.Sprintf("%s: %v", name, g), nil
		}
	}
	return "", nil
}

// filesAt returns a file of a folder, or the manifests of a folder within it.
func filesAt(folder, name string) (map[string][]byte, error) {
	names := []string{name}
	if entries, err := os.ReadDir(filepath.Join(folder, name)); err == nil {
		names = nil
		for _, e := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, path.Join(name, e.Name()))
			}
		}
	}
	files := map[string][]byte{}
	for _, n := range names {
		text, err := os.ReadFile(filepath.Join(folder, n))
		if err != nil {
			return nil, fmt.Errorf("%s is missing", n)
		}
		files[n] = text
	}
	return files, nil
}

// read returns the documents of files without the fields that may differ, by the name of their object, or of their file.
func (s Same) read(files map[string][]byte) (map[string]any, error) {
	all := map[string]any{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		documents, err := documentsOf(file, files[file])
		if err != nil {
			return nil, err
		}
		for _, d := range documents {
			for _, field := range s.But {
				remove(d, strings.Split(field, "."))
			}
			all[nameOf(d, file)] = d
		}
	}
	return all, nil
}

// documentsOf returns the documents of a YAML or JSON file.
func documentsOf(file string, text []byte) (all []any, err error) {
	found, problems := manifest.Documents(file, text)
	for _, d := range found {
		var value any
		problems = append(problems, json.Unmarshal(d.JSON, &value))
		all = append(all, value)
	}
	return all, errors.Join(problems...)
}

// nameOf returns the name of a document: of the object, such as "Namespace shop", or of the file.
func nameOf(document any, file string) string {
	name := valuesAt(document, "metadata.name")
	if len(name) == 0 {
		return file
	}
	var parts []string
	for _, part := range slices.Concat(valuesAt(document, "kind"), valuesAt(document, "metadata.namespace"), name) {
		parts = append(parts, text(part))
	}
	return strings.Join(parts, " ")
}

// remove removes a field of a value, in each element of the lists on its way.
func remove(value any, field []string) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			remove(element, field)
		}
	case map[string]any:
		if len(field) == 1 {
			delete(v, field[0])
			return
		}
		remove(v[field[0]], field[1:])
	}
}

// valuesAt returns the values of a field with dots, of each element of the lists on its way and at its end.
func valuesAt(value any, field string) (all []any) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			all = append(all, valuesAt(element, field)...)
		}
	case map[string]any:
		if field == "" {
			return []any{v}
		}
		key, rest, _ := strings.Cut(field, ".")
		all = valuesAt(v[key], rest)
	default:
		if field == "" && v != nil {
			all = []any{v}
		}
	}
	return all
}

// gap is a field whose value is not as it should be.
type gap struct {
	at        string
	want, got any
}

// String returns a sentence about the value that the field has; "" without a gap.
func (g *gap) String() string {
	switch {
	case g == nil:
		return ""
	case g.got == nil:
		return g.at + " is missing"
	}
	return g.at + " is " + shown(g.got)
}

// shown returns the text of a value for one line; of a long one, its beginning.
func shown(value any) string {
	if t := []rune(text(value)); len(t) > 100 {
		return string(t[:100]) + "…"
	}
	return cmp.Or(text(value), `""`)
}

// difference returns the first field in which two values differ, or nil. Null is as good as nothing.
func difference(want, got any, at string) *gap {
	a, isMap := want.(map[string]any)
	b, both := got.(map[string]any)
	x, isList := want.([]any)
	y, lists := got.([]any)
	switch {
	case isMap && both:
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if d := difference(a[key], b[key], strings.TrimPrefix(at+"."+key, ".")); d != nil {
				return d
			}
		}
		return nil
	case isList && lists:
		for i := range max(len(x), len(y)) {
			var a, b any
			if i < len(x) {
				a = x[i]
			}
			if i < len(y) {
				b = y[i]
			}
			if d := difference(a, b, fmt.Sprintf("%s[%d]", at, i)); d != nil {
				return d
			}
		}
		return nil
	case reflect.DeepEqual(want, got):
		return nil
	}
	return &gap{at, want, got}
}

// text returns a text as it is, and the JSON of every other value, and of a text that would be read as one, such as "2".
func text(value any) string {
	if t, is := value.(string); is && !json.Valid([]byte(t)) {
		return t
	}
	raw, _ := json.Marshal(value)
	return string(raw)
}
