package expression

import (
	"fmt"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/internal/pattern"
)

// maxMemory is the most memory that the compiled rules of a policy may take, in bytes, as memory estimates it. During a
// reload the rules in force and the new ones are there at once, beside the reviews: in the 256 MiB of deploy/base that
// leaves two thirds for everything else. It is the same in every container, so that a policy is not refused by one usher
// and accepted by another.
const maxMemory = 32 << 20

// What a compiled rule takes, in bytes, measured with cel-go 0.29. A program has a table of all functions, and the
// environment of a rule with variables a copy of all declarations.
const (
	memoryOfExpression = 16 << 10
	memoryOfVariables  = 56 << 10 // once for a rule that has some
	memoryOfText       = 32       // for each byte of an expression
)

// checkMemory returns the problem of rules that would take too much memory, apart from their patterns, and what is left for these. It
// must be asked before the rules are compiled.
func (r Rules) checkMemory(at *field.Path) (*patternBudget, field.ErrorList) {
	takes, expressions := 0, 0
	for i := range r {
		takes += r[i].memory()
		expressions += len(r[i].texts())
	}
	if takes <= maxMemory {
		return &patternBudget{parsing: pattern.MaxParsing, memory: maxMemory - takes}, nil
	}
	return nil, field.ErrorList{field.Forbidden(at, fmt.Sprintf("%d rules with %d expressions would take about %d MiB of memory "+
		"when they are compiled, and may take %d MiB; "+
		"join rules that differ only in a value into one that looks the value up in a list or a map",
		len(r), expressions, (takes+1<<20-1)>>20, maxMemory>>20))}
}

// memory returns about how much memory the rule will take when it is compiled, apart from its patterns, in bytes.
func (r *Rule) memory() (bytes int) {
	if len(r.Variables) > 0 {
		bytes = memoryOfVariables
	}
	for _, text := range r.texts() {
		bytes += memoryOfExpression + memoryOfText*len(text)
	}
	return bytes
}

// texts returns all expressions of the rule.
func (r *Rule) texts() (all []string) {
	for _, x := range r.MatchConditions {
		all = append(all, x.Expression)
	}
	for _, x := range r.Variables {
		all = append(all, x.Expression)
	}
	for _, v := range r.Validations {
		all = append(all, v.Expression)
		if v.MessageExpression != "" {
			all = append(all, v.MessageExpression)
		}
	}
	return all
}

// patternBudget is the remaining budget for the regular expressions of the rules of a policy, which are known when the expressions have been parsed.
type patternBudget struct {
	parsing int // nanoseconds
	memory  int // bytes, of maxMemory
}

// take takes what the patterns in a syntax tree need from the budget. It returns the problem if there is not enough, and then they must
// not be compiled. Those of compilers without a budget are not counted.
func (b *patternBudget) take(tree *ast.AST) (problem string) {
	if b == nil {
		return ""
	}
	for _, text := range patternsOf(tree) {
		if b.parsing -= pattern.Parsing(text); b.parsing < 0 {
			return pattern.Costly
		}
		if size, err := pattern.Measure(text); err == nil { // else it is refused when the expression is checked
			b.memory -= size.Bytes()
		}
		if b.memory < 0 {
			return fmt.Sprintf("with the patterns up to this one, the rules would take more than %d MiB of memory when they are compiled; "+
				`repeat less, write fewer classes such as \pL, and one rule in the place of several with the same pattern`, maxMemory>>20)
		}
	}
	return ""
}

// patternsOf returns the texts in a syntax tree of which patterns are made.
func patternsOf(tree *ast.AST) (all []string) {
	texts := ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if text, ok := e.AsLiteral().(types.String); ok {
			all = append(all, string(text))
		}
	})
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && patternFunctions[e.AsCall().FunctionName()] {
			for _, arg := range e.AsCall().Args() {
				ast.PostOrderVisit(arg, texts)
			}
		}
	}))
	return all
}

var patternFunctions = setOf("matches find findAll")
