package expression

import (
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// linear replaces the library's indexOf and lastIndexOf, which compare every place of a text with the other, for texts of
// ASCII characters, whose places are those of their bytes.
func (o overloads) linear() {
	for name, of := range o {
		switch {
		case name == "indexOf" || strings.HasPrefix(name, "string_index_of_string"):
			o[name] = linear(of, func(text, part string, from int) int {
				if at := strings.Index(text[from:], part); at >= 0 {
					return from + at
				}
				return -1
			}, func(string) int { return 0 })
		case name == "lastIndexOf" || strings.HasPrefix(name, "string_last_index_of_string"):
			o[name] = linear(of, func(text, part string, from int) int {
				return strings.LastIndex(text[:min(from+len(part), len(text))], part)
			}, func(text string) int { return len(text) })
		}
	}
}

// linear returns an implementation that calls find, from the given place of a text or its first one, and the library's for
// other arguments.
func linear(of *functions.Overload, find func(text, part string, from int) int, first func(text string) int) *functions.Overload {
	search := func(args ...ref.Val) ref.Val {
		text, from := textOf(args, 0), first(textOf(args, 0))
		if len(args) > 2 {
			from = intOf(args, 2, len(text))
		}
		return types.Int(find(text, textOf(args, 1), from))
	}
	with := *of
	if of.Binary != nil {
		with.Binary = func(a, b ref.Val) ref.Val {
			if isLinear([]ref.Val{a, b}) {
				return search(a, b)
			}
			return of.Binary(a, b)
		}
	}
	if of.Function != nil {
		with.Function = func(args ...ref.Val) ref.Val {
			if isLinear(args) {
				return search(args...)
			}
			return of.Function(args...)
		}
	}
	return &with
}

// isLinear reports whether the arguments are texts of ASCII characters and, if there is one, a place in the first.
func isLinear(args []ref.Val) bool {
	if len(args) < 2 {
		return false
	}
	text, isText := args[0].(types.String)
	part, isPart := args[1].(types.String)
	if !isText || !isPart || part == "" {
		return false
	}
	if len(args) > 2 {
		if from, ok := args[2].(types.Int); !ok || from < 0 || int(from) >= len(text) {
			return false
		}
	}
	return isASCII(string(text)) && isASCII(string(part))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
