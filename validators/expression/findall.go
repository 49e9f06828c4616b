package expression

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// allFinder finds all matches of a pattern as regexp does, and counts what each search reads: one may read to the end of the text
// to find a match at its beginning, and for most patterns none does.
type allFinder struct {
	first, next  *regexp.Regexp // next finds a match behind a character, in its first group
	prefix       string         // of all matches
	instructions int
}

func newAllFinder(re *regexp.Regexp, instructions int) (*allFinder, error) {
	next, err := regexp.Compile(`\A(?s:.)(?s:.)*?(` + re.String() + `)`)
	prefix, _ := re.LiteralPrefix()
	return &allFinder{re, next, prefix, instructions + instructionsOfNext}, err
}

const (
	instructionsOfNext = 8
	workOfSearch       = 600 // nanoseconds, beside what it reads
)

// find is findAll for arguments of the right types; ok is false for others.
func (f *allFinder) find(r *reader, args []ref.Val) (all ref.Val, ok bool) {
	text, ok := args[0].(types.String)
	n := types.Int(-1)
	if len(args) > 2 && ok {
		n, ok = args[2].(types.Int)
	}
	if !ok {
		return nil, false
	}
	counted := &countedText{reader: r, text: string(text), workOfByte: workOfInstruction * f.instructions}
	return types.NewStringList(types.DefaultTypeAdapter, f.all(counted, int(n))), true
}

func (f *allFinder) all(text *countedText, n int) (found []string) {
	for at, last := 0, -1; at <= len(text.text) && (n < 0 || len(found) < n); {
		from, to := f.match(text, at)
		if from < 0 {
			break
		}
		if from < to || from != last { // an empty match just behind another does not count
			found = append(found, text.text[from:to])
			text.made += 2 * memoryOfElement
		}
		if last = to; to > at {
			at = to
		} else {
			_, width := utf8.DecodeRuneInString(text.text[at:])
			at += max(1, width)
		}
	}
	text.count()
	return found
}

// match returns the first match that does not begin before a place; from is -1 for none.
func (f *allFinder) match(text *countedText, at int) (from, to int) {
	skipped := strings.Index(text.text[at:], f.prefix)
	if skipped < 0 {
		text.take(workOfByte * (len(text.text) - at))
		return -1, -1
	}
	text.take(workOfSearch + workOfByte*skipped)
	re, group := f.first, 0
	if at += skipped; at > 0 {
		_, width := utf8.DecodeLastRuneInString(text.text[:at])
		re, group, at = f.next, 1, at-width
	}
	text.at = at
	found := re.FindReaderSubmatchIndex(text)
	if found == nil {
		return -1, -1
	}
	return at + found[2*group], at + found[2*group+1]
}

// countedText is a text, an io.RuneReader, that makes its reader count what is read.
type countedText struct {
	reader     *reader
	text       string
	at         int
	workOfByte int

	work, made int // that are not yet counted
	took       int // nanoseconds of the call
}

func (t *countedText) ReadRune() (rune, int, error) {
	if t.at >= len(t.text) {
		return 0, 0, io.EOF
	}
	r, size := utf8.DecodeRuneInString(t.text[t.at:])
	t.at += size
	t.take(size * t.workOfByte)
	return r, size, nil
}

func (t *countedText) take(work int) {
	if t.work += work; t.work > workPerCheck {
		t.count()
	}
}

// count counts what was taken since the last count. A call that has taken too much ends.
func (t *countedText) count() {
	p := price{work: t.work, makes: t.made}
	if t.took += t.work; t.took > maxCall {
		p.work = t.took
	}
	t.work, t.made = 0, 0
	t.reader.afford("findAll", p)
}
