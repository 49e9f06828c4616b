// Package mask hides values in objects and texts: of environment variables and annotations, the data of Secrets, and tokens.
package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
)

// Hidden is printed in place of a masked value.
const Hidden = "***"

// Mask hides the values of environment variables and annotations, the data of Secrets, and tokens of TokenRequests.
type Mask struct {
	// Show shows everything.
	Show bool
	// Secret says that the object is a Secret, which a patch does not say.
	Secret bool

	copies [][]string // paths to which a hidden value was copied
	values []string   // that were hidden
}

// Values returns the texts that were hidden, which must not be quoted elsewhere, in no order.
func (m *Mask) Values() []string { return slices.Clone(m.values) }

// isHidden reports whether the value at a path is hidden as a whole. Members of annotations are, but not the map.
func (m *Mask) isHidden(at []string, secret bool) bool {
	n := len(at)
	if n == 0 {
		return false
	}
	above := at[:n-1]
	if n == 2 && at[1] == "token" && (at[0] == "spec" || at[0] == "status") {
		return true
	}
	if n >= 2 && (at[n-2] == "annotations" || secret && (at[n-2] == "data" || at[n-2] == "stringData")) {
		return true
	}
	if i := slices.Index(above, "env"); i >= 0 {
		rest := at[i+1:]
		return len(rest) > 1 && rest[1] != "name" && rest[1] != "valueFrom" || len(rest) == 1 && !isIndex(rest[0])
	}
	return slices.ContainsFunc(m.copies, func(to []string) bool { return len(at) >= len(to) && samePlaces(to, at[:len(to)]) })
}

// Copied remembers that a patch copied from one place to another, if what it copied is hidden, or has a part that is
// hidden only because it was copied there.
func (m *Mask) Copied(from, to []string) {
	for _, known := range m.copies {
		if len(known) > len(from) && samePlaces(known[:len(from)], from) {
			m.copies = append(m.copies, slices.Concat(to, known[len(from):]))
		}
	}
	if m.under(append(from[:len(from):len(from)], "*")) {
		m.copies = append(m.copies, to)
	}
}

// samePlaces reports whether paths are the same but for the indexes of lists: elements move when others are inserted.
func samePlaces(a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool { return x == y || isIndex(x) && isIndex(y) })
}

func isIndex(token string) bool {
	_, err := strconv.Atoi(token)
	return err == nil || token == "-"
}

// Hides reports whether the value at a path is hidden as a whole.
func (m *Mask) Hides(at []string) bool { return m.isHidden(at, m.Secret) }

// under reports whether a path is at or below a hidden value.
func (m *Mask) under(at []string) bool {
	for i := range at {
		if m.Hides(at[:i+1]) {
			return true
		}
	}
	return false
}

// Value returns a value at a path of an object without what is hidden in it. It remembers what it hides.
func (m *Mask) Value(at []string, value any) any {
	if m.Show {
		return value
	}
	if m.under(at) {
		m.remember(value)
		return Hidden
	}
	return m.in(at, value, m.Secret)
}

func (m *Mask) in(at []string, value any, secret bool) any {
	if m.isHidden(at, secret) || isHolder(at, secret) && isScalar(value) {
		m.remember(value)
		return Hidden
	}
	switch v := value.(type) {
	case map[string]any:
		secret = secret || v["kind"] == "Secret"
		masked := make(map[string]any, len(v))
		for key, member := range v {
			masked[key] = m.in(append(at[:len(at):len(at)], key), member, secret)
		}
		return masked
	case []any:
		masked := make([]any, len(v))
		for i, element := range v {
			at := append(at[:len(at):len(at)], strconv.Itoa(i))
			if len(at) > 1 && at[len(at)-2] == "env" && !isFields(element) {
				m.remember(element)
				masked[i] = Hidden
				continue
			}
			masked[i] = m.in(at, element, secret)
		}
		return masked
	}
	return value
}

// isHolder reports whether a path is of a map or list of hidden values, which should not be a scalar.
func isHolder(at []string, secret bool) bool {
	if len(at) == 0 {
		return false
	}
	last := at[len(at)-1]
	inLabels := len(at) > 1 && IsMap(at[len(at)-2])
	return !inLabels && (last == "annotations" || last == "env" || secret && (last == "data" || last == "stringData"))
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any, nil:
		return false
	}
	return true
}

// IsMap reports whether the members of a field are data, and not fields.
func IsMap(key string) bool {
	switch key {
	case "labels", "annotations", "matchLabels", "nodeSelector", "data", "binaryData", "stringData":
		return true
	}
	return false
}

func isFields(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// remember keeps the texts in a hidden value.
func (m *Mask) remember(value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
		m.values = append(m.values, v)
		if inner, err := Decode([]byte(v)); err == nil && !isScalar(inner) {
			m.remember(inner) // such as last-applied-configuration
		}
		if plain, err := base64.StdEncoding.DecodeString(v); err == nil && len(plain) > 2 {
			m.values = append(m.values, string(plain))
		}
	case json.Number:
		m.values = append(m.values, v.String())
	case map[string]any:
		for _, member := range v {
			m.remember(member)
		}
	case []any:
		for _, element := range v {
			m.remember(element)
		}
	}
}

// Object returns a document without what is hidden in it; nil for what is no JSON.
func (m *Mask) Object(raw []byte) json.RawMessage {
	value, err := Decode(raw)
	if err != nil {
		return nil
	}
	if fields, ok := value.(map[string]any); ok && fields["kind"] == "Secret" {
		m.Secret = true
	}
	return encode(m.Value(nil, value))
}

func encode(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}

// Decode decodes a value with its numbers as they are written.
func Decode(raw []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}
