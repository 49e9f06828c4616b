package admit

import (
	"fmt"
	"strings"
)

// MaxNames is the number of names that a message lists.
const MaxNames = 3

// SomeNames lists up to MaxNames names in a message, and how many more there are.
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

// SomeOrNothing is like SomeNames, but returns "nothing" for an empty list.
func SomeOrNothing[T ~string](names []T) string {
	if len(names) == 0 {
		return "nothing"
	}
	return SomeNames(names)
}
