package explain

import (
	"strconv"
	"strings"

	"usher.dev/usher/server/recording/mask"
)

// segment is one step of a path: a key of an object, or an element of a list.
type segment struct {
	key    string
	isItem bool
	index  int    // -1: the end of the list
	name   string // of the element, by its merge key; "" if it has none
}

// path is a path in a document.
type path []segment

func (p path) to(s segment) path { return append(p[:len(p):len(p)], s) }

func (p path) member(key string) path { return p.to(segment{key: key}) }

// String returns the path with the names of list elements, such as spec.containers[app].env[LOG_LEVEL].value.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.isItem && s.name != "":
			b.WriteString("[" + s.name + "]")
		case s.isItem && s.index < 0:
			b.WriteString("[-]")
		case s.isItem:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case strings.ContainsAny(s.key, "./[] ") || i > 0 && mask.IsMap(p[i-1].key):
			b.WriteString("[" + s.key + "]")
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	if b.Len() == 0 {
		return "the object"
	}
	return b.String()
}

// Tokens splits a JSON pointer.
func Tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range parts {
		if strings.Contains(parts[i], "~") {
			parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
		}
	}
	return parts
}

// pathOf reads a pointer without the document that it points into. An index is taken for one unless it is in a map.
func pathOf(pointer string) (p path) {
	for _, token := range Tokens(pointer) {
		index, err := strconv.Atoi(token)
		if token == "-" {
			index, err = -1, nil
		}
		if err == nil && len(p) > 0 && !mask.IsMap(p[len(p)-1].key) {
			p = p.to(segment{isItem: true, index: index})
			continue
		}
		p = p.member(token)
	}
	return p
}

// tokens returns the keys and indexes of the path.
func (p path) tokens() (all []string) {
	for _, s := range p {
		if s.isItem {
			all = append(all, strconv.Itoa(max(s.index, 0)))
		} else {
			all = append(all, s.key)
		}
	}
	return all
}
