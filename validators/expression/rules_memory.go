package expression

import (
	"fmt"
	"regexp"
	"strings"

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

// checkMemory returns the problem of rules that would take too much memory. It must be asked before they are compiled.
func (r Rules) checkMemory(at *field.Path) field.ErrorList {
	takes, expressions := 0, 0
	for i := range r {
		takes += r[i].memory()
		expressions += len(r[i].texts())
	}
	if takes <= maxMemory {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("%d rules with %d expressions would take about %d MiB of memory when they are compiled, "+
		"and may take %d MiB; "+
		"join rules that differ only in a value into one that looks the value up in a list or a map",
		len(r), expressions, (takes+1<<20-1)>>20, maxMemory>>20))}
}

// memory returns about how much memory the rule will take when it is compiled, in bytes.
func (r *Rule) memory() (bytes int) {
	if len(r.Variables) > 0 {
		bytes = memoryOfVariables
	}
	for _, text := range r.texts() {
		bytes += memoryOfExpression + memoryOfText*len(text) + patterns(text)
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

// literal matches a string in an expression.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)

// maxLiteral is the length of a string beyond which it is estimated without being read.
const maxLiteral = 4 << 10

// patterns returns how many bytes the strings in an expression take that have repetitions, if they are regular expressions.
func patterns(text string) (bytes int) {
	for _, found := range literal.FindAllString(text, -1) {
		if len(found) > maxLiteral {
			bytes += len(found) * strings.Count(found, "{")
		} else if size, err := pattern.Measure(strings.ReplaceAll(found[1:len(found)-1], `\\`, `\`)); err == nil && strings.Contains(found, "{") {
			bytes += size.Bytes()
		}
	}
	return bytes
}
