package admit

import (
	"fmt"
	"strings"
)

// MaxNames is how many names a message lists.
const MaxNames = 3

// SomeNames lists names for people: all, or the first and how many more there are.
func SomeNames[T ~string](names []T) string {
	texts := make([]string, 0, MaxNames+1)
	for _, name := range names[:min(MaxNames, len(names))] {
		texts = append(texts, string(name))
	}
	if more := len(names) - MaxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts, ", "), more)
	}
	return strings.Join(texts, ", ")
}

// SomeOrNothing says "nothing" for an empty list of names.
func SomeOrNothing[T ~string](names []T) string {
	if len(names) == 0 {
		return "nothing"
	}
	return SomeNames(names)
}
