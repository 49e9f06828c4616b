package expression

import (
	"regexp/syntax"
	"unicode"
)

// folding returns how many times as much an instruction of a pattern takes at most: letters outside ASCII are compared in all
// their cases.
func folding(text string) int {
	if tree, err := syntax.Parse(text, syntax.Perl); err == nil && foldsLetters(tree) {
		return 2
	}
	return 1
}

func foldsLetters(tree *syntax.Regexp) bool {
	if tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase != 0 {
		for _, r := range tree.Rune {
			if r > unicode.MaxASCII {
				return true
			}
		}
	}
	for _, sub := range tree.Sub {
		if foldsLetters(sub) {
			return true
		}
	}
	return false
}
