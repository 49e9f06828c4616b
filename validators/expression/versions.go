package expression

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The minor versions of Kubernetes 1 whose CEL is compared: from that in which ValidatingAdmissionPolicies became stable
// to that of usher.
const (
	oldestMinor = 30
	ownMinor    = 37
)

// compatibleMinor is the minor version of Kubernetes 1 that a compiler is made for, whatever the process says: a program with an API
// server in it may emulate an older one, or have no version before its flags are read.
const compatibleMinor = ownMinor - 1

// languageNotes returns what an expression means in the CEL of usher, and does not in that of older versions. Their libraries
// are not looked at.
func (s *scope) languageNotes(text string, tree *ast.AST) (notes []string) {
	if strings.Contains(text, "`") && !parsesWithoutEscapes(text) {
		notes = append(notes, fmt.Sprintf("names in backticks are not known before Kubernetes 1.%d; write object['x-y']", ownMinor))
	}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !isOr(e.AsCall().FunctionName()) || !e.AsCall().IsMemberFunction() || s.isOptional(tree, e.AsCall().Target()) {
			return
		}
		at := tree.SourceInfo().GetStartLocation(e.ID())
		notes = append(notes, fmt.Sprintf("line %d column %d: %s of a value that is not optional has no result; "+
			"before Kubernetes 1.%d it is the value itself. Write object.?a.orValue(b), or has(object.a) ? object.a : b",
			at.Line(), at.Column()+1, e.AsCall().FunctionName(), ownMinor))
	}))
	return notes
}

// isOptional reports whether the value of a syntax tree is known to be optional.
func (s *scope) isOptional(tree *ast.AST, e ast.Expr) bool {
	of := tree.GetType(e.ID())
	if e.Kind() == ast.SelectKind {
		operand := e.AsSelect().Operand()
		if variable := s.variables[e.AsSelect().FieldName()]; variable != nil && operand.Kind() == ast.IdentKind && operand.AsIdent() == variablesName {
			of = variable.result // which the declaration of the variable does not have
		}
	}
	return of.Kind() == types.OpaqueKind && of.TypeName() == types.OptionalType.TypeName()
}

// parsesWithoutEscapes reports whether an expression has no name in backticks.
func parsesWithoutEscapes(text string) bool {
	p, err := parser.NewParser(parser.EnableIdentEscapeSyntax(false), parser.EnableOptionalSyntax(true), parser.Macros(parser.AllMacros...))
	if err != nil {
		return false
	}
	_, problems := p.Parse(common.NewTextSource(text))
	for _, e := range problems.GetErrors() {
		if strings.Contains(e.Message, "`") {
			return false
		}
	}
	return true
}

// oldCompilers are the compilers of older versions, by their minor version. They are made when they are needed.
type oldCompilers map[uint]*Compiler

func (o oldCompilers) of(minor uint) (*Compiler, error) {
	if o[minor] == nil {
		c, err := compilerOf(environment.MustBaseEnvSet(version.MajorMinor(1, minor)).NewExpressionsEnv())
		if err != nil {
			return nil, err
		}
		c.onlyCheck = true
		o[minor] = c
	}
	return o[minor], nil
}

// notes returns the differences of a rule between the CEL of usher and that of older versions, each with its place.
func (o oldCompilers) notes(rule Expressions, at *field.Path) (texts []string) {
	var first field.ErrorList // the problems of the oldest version
	for minor := uint(oldestMinor); minor <= ownMinor; minor++ {
		c, err := o.of(minor)
		if err != nil {
			return nil
		}
		_, problems := c.Compile(rule, at)
		if minor == oldestMinor {
			first = problems
		}
		if len(problems) > 0 && minor < ownMinor {
			continue
		}
		for _, p := range first {
			says, _, _ := strings.Cut(p.Detail, "; ")
			texts = append(texts, fmt.Sprintf("%s: a ValidatingAdmissionPolicy with this needs Kubernetes 1.%d; 1.%d says: %s",
				p.Field, minor, oldestMinor, says))
		}
		break
	}
	return texts
}
