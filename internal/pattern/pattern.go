// Package pattern returns what a regular expression costs before it is parsed and compiled: a short one may have a large program.
package pattern

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Size is the size of a regular expression.
type Size struct {
	// Instructions is about the number of instructions of its program. To match a text takes at most as many steps for each byte.
	Instructions int
	// Ranges is the number of ranges in the classes of characters of the program.
	Ranges int
	// Longest is the number of characters of the longest text that may match, or Unlimited.
	Longest int
}

// Unlimited is the length of the longest text that matches an expression such as a*.
const Unlimited = -1

// Bytes returns the most memory that the compiled expression takes, in bytes, as measured with Go 1.26. Most of it is a table for
// expressions that can be matched without a choice, which only those of less than 1,000 instructions have.
func (s Size) Bytes() int {
	if s.Instructions > 1200 { // they are never underestimated, but may be overestimated
		return 2<<10 + 60*s.Instructions + 10*s.Ranges
	}
	return 2<<10 + 140*s.Instructions + 28*s.Ranges
}

// MaxParsing is the most that it may take to parse the patterns of a section of a policy, in nanoseconds, as Parsing estimates it.
const MaxParsing = 500_000_000

// Costly says that patterns take more than that, and what to do.
const Costly = `the patterns up to this one take too long to read: those with many classes such as \pL and, with (?i), ranges that end ` +
	`in a letter outside ASCII, such as [a-ÿ]; write fewer or shorter ones`

// What it takes to parse, in nanoseconds, measured with Go 1.26.
const (
	parsingByte     = 2_000
	parsingFolded   = 5_000   // a byte that is matched without regard to case
	parsingClass    = 100_000 // a class such as \pL, which has hundreds of ranges
	parsingFolding  = 100     // a character of a range of a class that is matched without regard to case: each is looked up
	lastFolded      = 0x1e943
	lastOctalEscape = 0o777
)

// Parsing returns about how many nanoseconds it takes to parse an expression at most. It does not parse it, and must be asked before.
func Parsing(expression string) (nanoseconds int) {
	each, folded := parsingByte, false
	for i := range len(expression) {
		nanoseconds += each
		switch rest := expression[i:]; {
		case strings.HasPrefix(rest, `\p`), strings.HasPrefix(rest, `\P`):
			nanoseconds += parsingClass
		case strings.HasPrefix(rest, "(?"):
			flags := rest[2 : len(rest)-len(strings.TrimLeft(rest[2:], "imsU-"))]
			if strings.Contains(flags, "i") {
				each, folded = parsingFolded, true // until the end, to be simple
			}
		case folded && rest[0] == '-':
			nanoseconds += parsingFolding * mostCharacters(rest[1:])
		}
	}
	return nanoseconds
}

// mostCharacters returns how many characters a range that ends with the first character of a text has at most, of those that
// may have another case.
func mostCharacters(text string) int {
	switch end, _ := utf8.DecodeRuneInString(text); {
	case strings.HasPrefix(text, `\x{`):
		return lastFolded
	case end == '\\':
		return lastOctalEscape
	default:
		return min(int(end), lastFolded)
	}
}

// Measure returns the size of an expression in RE2 syntax, or the error with which it would not compile. Before it is compiled, a
// repetition is written out: as often as it may occur at most, but once for a*. It parses the expression, see Parsing.
func Measure(expression string) (Size, error) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return Size{}, err
	}
	return measure(tree), nil
}

func measure(tree *syntax.Regexp) (size Size) {
	switch tree.Op {
	case syntax.OpConcat, syntax.OpRepeat:
	case syntax.OpAlternate:
		size.Instructions = len(tree.Sub) - 1
	case syntax.OpCapture, syntax.OpStar:
		size.Instructions = 2
	default:
		size.Instructions = 1
	}
	for _, part := range tree.Sub {
		of := measure(part)
		size.Instructions += of.Instructions
		size.Ranges += of.Ranges
		switch {
		case size.Longest == Unlimited || of.Longest == Unlimited:
			size.Longest = Unlimited
		case tree.Op == syntax.OpAlternate:
			size.Longest = max(size.Longest, of.Longest)
		default:
			size.Longest += of.Longest
		}
	}
	switch tree.Op {
	case syntax.OpLiteral:
		size.Instructions, size.Longest = len(tree.Rune), len(tree.Rune)
	case syntax.OpCharClass:
		size.Ranges, size.Longest = len(tree.Rune)/2, 1
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		size.Longest = 1
	case syntax.OpStar, syntax.OpPlus:
		size.repeat(1, Unlimited)
	case syntax.OpRepeat:
		size.repeat(max(tree.Min, tree.Max), tree.Max)
		size.Instructions += 1 + max(0, tree.Max-tree.Min)
	}
	return size
}

// repeat makes it the size of a part that is written out a number of times, and may occur most times.
func (s *Size) repeat(written, most int) {
	s.Instructions *= max(written, 1)
	s.Ranges *= max(written, 1)
	switch {
	case s.Longest == 0 || most == 0:
		s.Longest = 0
	case s.Longest == Unlimited || most == Unlimited:
		s.Longest = Unlimited
	default:
		s.Longest *= most
	}
}
