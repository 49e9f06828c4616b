package expression

import (
	"math"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"usher.dev/usher/internal/pattern"
)

// What patterns take, measured with Go 1.26.
const (
	workOfInstruction   = 12 // nanoseconds for each byte of a text, twice of the slowest
	workOfPattern       = 10_000
	memoryOfPattern     = 4 << 10 // for each byte, with a class of Unicode in three
	memoryOfInstruction = 400
)

// search returns the price of a search in a text, by a program of so many instructions. What comes before the prefix of all
// matches is skipped. A search for all matches begins anew behind each, although it may have read to the end.
func search(args []ref.Val, instructions int, prefix string, all bool) price {
	text := textOf(args, 0)
	from := strings.Index(text, prefix)
	if from < 0 {
		return price{work: workOfByte * len(text)}
	}
	n, matches := float64(len(text)-from+1), 1
	if all {
		matches = intOf(args, 2, int(n))
	}
	work := workOfInstruction * n * float64(instructions) * float64(1+matches) / 2
	return price{work: workOfByte*len(text) + int(min(work, tooHeavy)), makes: 2 * memoryOfElement * (matches - 1)}
}

// computed is a pattern that is not known before the evaluation. What it will take to compile it, which a call does after its price has
// been computed from the parsed pattern, is counted before it is read.
type computed struct {
	interpreter.InterpretableV2
	function string
}

func (c computed) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := c.InterpretableV2.Exec(frame)
	text, isText := value.(types.String)
	if reader := readerOf(frame); reader != nil && isText {
		reader.afford(c.function, price{work: workOfPattern*len(text) + 2*pattern.Parsing(string(text)), needs: memoryOfPattern * len(text)})
	}
	return value
}

func (c computed) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// matched and allMatched are the prices of a search for a pattern that is compiled for each search, without those of computed.
func matched(args []ref.Val) price    { return compiledSearch(args, false) }
func allMatched(args []ref.Val) price { return compiledSearch(args, true) }

func compiledSearch(args []ref.Val, all bool) price {
	text := textOf(args, 1)
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return price{}
	}
	instructions := mostInstructions(tree)
	p := search(args, instructions, "", all)
	p.work += memoryOfInstruction * instructions
	p.needs = memoryOfPattern*len(text) + memoryOfInstruction*instructions
	return p
}

// mostInstructions returns the size that the program of a pattern has at most.
func mostInstructions(tree *syntax.Regexp) int {
	n := 2
	if tree.Op == syntax.OpLiteral {
		n += len(tree.Rune)
	}
	for _, sub := range tree.Sub {
		n += mostInstructions(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min+1, tree.Max)
	}
	return n
}

// usePattern compiles the pattern of a call that always has the same, as the library does; the library then must not do so.
func (c *call) usePattern() error {
	var run func(re *regexp.Regexp, text string, n int) ref.Val
	switch c.Function() {
	case "matches":
		run = func(re *regexp.Regexp, text string, _ int) ref.Val { return types.Bool(re.MatchString(text)) }
	case "find":
		run = func(re *regexp.Regexp, text string, _ int) ref.Val { return types.String(re.FindString(text)) }
	case "findAll":
		run = func(re *regexp.Regexp, text string, n int) ref.Val {
			return types.NewStringList(types.DefaultTypeAdapter, re.FindAllString(text, n))
		}
	}
	if run == nil || len(c.args) < 2 {
		return nil
	}
	literal, _ := c.args[1].(interpreter.InterpretableConst)
	if literal == nil || literal.Value().Type() != types.StringType {
		c.args = append([]interpreter.InterpretableV2{c.args[0], computed{c.args[1], c.Function()}}, c.args[2:]...)
		return nil
	}
	text := string(literal.Value().(types.String))
	re, err := regexp.Compile(text)
	if err != nil {
		return err
	}
	instructions := instructionsOf(text) * folding(text)
	prefix, _ := re.LiteralPrefix()
	c.price = func(args []ref.Val) price { return search(args, instructions, prefix, false) }
	if c.Function() == "findAll" {
		if c.all, err = newAllFinder(re, instructions); err != nil {
			return err
		}
	}
	c.does = &functions.Overload{Function: func(args ...ref.Val) ref.Val {
		n, ok := types.Int(-1), true
		if len(args) > 2 {
			n, ok = args[2].(types.Int)
		}
		if _, isText := args[0].(types.String); !isText || !ok {
			return types.NoSuchOverloadErr()
		}
		return run(re, textOf(args, 0), int(n))
	}}
	c.args = append([]interpreter.InterpretableV2{c.args[0], hidden{literal}}, c.args[2:]...)
	return nil
}

// instructionsOf returns the size of the program of a pattern.
func instructionsOf(text string) int {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return math.MaxInt32
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return math.MaxInt32
	}
	return len(program.Inst)
}

// hidden is a node that the library does not recognize as a constant.
type hidden struct{ interpreter.InterpretableV2 }
