package explain

import (
	"slices"

	"usher.dev/usher/server/recording/mask"
)

// phrases says what changed, by names.
func (x *explaining) phrases(changes []change) (texts []string) {
	for _, c := range changes {
		texts = append(texts, x.phrase(c))
	}
	return texts
}

func (x *explaining) phrase(c change) string {
	at := cut(x.mask, c.path)
	text := thing(at)
	n := len(c.path)
	isElement := n > 0 && c.path[n-1].isItem
	switch {
	case c.what == "moved":
		return "order of " + text + " changed"
	case c.what == "removed":
		return text + " removed"
	case c.what == "added" && (isElement || isFields(c.to) || n > 1 && mask.IsMap(c.path[n-2].key)):
		return text + " added" + x.shown(": ", c)
	case len(at) < n || isVariable(at):
		return text + " set"
	}
	return text + " set" + x.shown(" to ", c)
}

// isVariable reports whether a path is of the value of a variable.
func isVariable(at path) bool {
	n := len(at)
	return n > 2 && at[n-1].key == "value" && at[n-2].isItem && at[n-3].key == "env"
}

// shown returns a short value after some words, or "".
func (x *explaining) shown(before string, c change) string {
	const most = 80
	list, _ := c.to.([]any)
	if c.to == nil || isFields(c.to) || slices.ContainsFunc(list, func(element any) bool { return !isScalar(element) }) {
		return ""
	}
	value := x.mask.Value(c.path.tokens(), c.to)
	raw := encode(value)
	if value == mask.Hidden || len(raw) > most {
		return ""
	}
	return before + string(raw)
}
