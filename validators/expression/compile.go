package expression

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Expressions are the part of a rule that is written in CEL.
type Expressions struct {
	Conditions  []Named
	Variables   []Named
	Validations []Validation
}

// Named is an expression with a name.
type Named struct {
	Name       string `json:"name" doc:"the name" schema:"required,is=not-empty"`
	Expression string `json:"expression" doc:"an expression in CEL" schema:"required,is=cel"`
}

// Validation is an expression that must be true, and what to say if it is not.
type Validation struct {
	Expression        string `json:"expression" doc:"an expression in CEL that must be true" schema:"required,is=cel"`
	Message           string `json:"message,omitempty" doc:"is shown to the user" default:"the expression"`
	MessageExpression string `json:"messageExpression,omitempty" doc:"an expression in CEL that composes the message; if it fails, message is shown" schema:"is=cel"`
	FieldPath         string `json:"fieldPath,omitempty" doc:"the field that is wrong, such as spec.replicas" schema:"is=field-path" default:"the object"`
	Reason            string `json:"reason,omitempty" doc:"the reason of the refusal" schema:"enum=Invalid|Forbidden|Unauthorized|RequestEntityTooLarge" default:"Invalid"`
}

// compiled is an expression that is ready to run.
type compiled struct {
	name    string // of a variable or a condition
	text    string
	program cel.Program
	result  *cel.Type
	reads   reads
	sites   []site
	loops   map[int64]int64 // see loopsOf

	overloads overloads
}

// Program is a compiled rule. It may be evaluated concurrently.
type Program struct {
	conditions    []*compiled
	variables     []*compiled
	variablesType *apiservercel.DeclType
	validations   []validation
	turns         turns
	// notes are what expressions mean otherwise in older versions of Kubernetes, each with its place in the policy.
	notes []string
}

type validation struct {
	*compiled
	message *compiled // nil: none
	said    string    // the message if there is no other
	at      fieldPath // empty: the object
	reason  string
	kept    [][]string // see reads.kept
}

// Compile compiles a rule, and returns the problems of all its expressions, each with the place in the text.
func (c *Compiler) Compile(rule Expressions, at *field.Path) (*Program, field.ErrorList) {
	s := scope{env: c.plain, overloads: c.overloads, patterns: c.patterns, onlyCheck: c.onlyCheck, variablesType: c.noVariables,
		variables: map[string]*compiled{}}
	if len(rule.Variables) > 0 {
		var err error
		if s.env, s.variablesType, err = withVariables(c.env); err != nil {
			return nil, field.ErrorList{field.InternalError(at, err)}
		}
	}
	p := &Program{variablesType: s.variablesType, turns: c.turns}
	for i, v := range rule.Variables {
		if x := s.variable(v, at.Child("variables").Index(i)); x != nil {
			p.variables = append(p.variables, x)
		}
	}
	for i, condition := range rule.Conditions {
		p.conditions = append(p.conditions, s.condition(condition, at.Child("matchConditions").Index(i)))
	}
	for i, v := range rule.Validations {
		p.validations = append(p.validations, s.validation(v, at.Child("validations").Index(i)))
	}
	if len(s.problems) > 0 {
		return nil, s.problems
	}
	p.notes = s.notes
	p.ratchet()
	return p, nil
}

// ratchet finds what must be unchanged for violations to pass.
func (p *Program) ratchet() {
	var conditions reads
	for _, c := range p.conditions {
		conditions.merge(c.reads)
	}
	for i := range p.validations {
		p.validations[i].kept = p.validations[i].reads.kept(conditions)
	}
}

// scope holds what the expressions of one rule see, and the problems found in them.
type scope struct {
	env           *cel.Env
	overloads     overloads
	patterns      *patternBudget
	variablesType *apiservercel.DeclType
	variables     map[string]*compiled
	problems      field.ErrorList
	notes         []string
	onlyCheck     bool
}

// identifier matches the names that variables may have.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variable compiles a variable, which those after it may use.
func (s *scope) variable(v Named, at *field.Path) *compiled {
	switch {
	case !identifier.MatchString(v.Name):
		s.problem(field.Invalid(at.Child("name"), v.Name, "must be an identifier, such as replicas: it is used as variables.replicas"))
	case s.variables[v.Name] != nil:
		s.problem(field.Duplicate(at.Child("name"), v.Name))
	}
	x := s.compile(v.Expression, nil, at.Child("expression"))
	if x == nil { // the expressions after it see a variable of any type
		x = &compiled{text: v.Expression, result: cel.DynType}
	}
	x.name = v.Name
	s.variables[v.Name] = x
	s.variablesType.Fields[v.Name] = apiservercel.NewDeclField(v.Name, declared(x.result), true, nil, nil)
	return x
}

// condition compiles a match condition. As in policies of the API server, it does not see the namespace.
func (s *scope) condition(c Named, at *field.Path) *compiled {
	if c.Name == "" {
		s.problem(field.Required(at.Child("name"), "it is shown when the condition is false"))
	}
	x := s.compile(c.Expression, cel.BoolType, at.Child("expression"))
	if x != nil {
		x.name = c.Name
		if x.reads.namespace {
			s.problem(field.Forbidden(at.Child("expression"),
				"match conditions do not have namespaceObject; use match.namespaceSelector, or a validation"))
		}
	}
	return x
}

func (s *scope) validation(v Validation, at *field.Path) validation {
	x := validation{said: strings.TrimSpace(v.Message), reason: v.Reason}
	x.compiled = s.compile(v.Expression, cel.BoolType, at.Child("expression"))
	if x.said == "" {
		x.said = "failed expression: " + strings.Join(strings.Fields(v.Expression), " ")
	}
	if strings.Contains(x.said, "\n") {
		s.problem(field.Invalid(at.Child("message"), v.Message, "must be one line"))
	}
	if v.MessageExpression != "" {
		x.message = s.compile(v.MessageExpression, cel.StringType, at.Child("messageExpression"))
	}
	if v.Reason != "" && !slices.Contains(reasons, v.Reason) {
		s.problem(field.NotSupported(at.Child("reason"), v.Reason, reasons))
	}
	if v.FieldPath != "" {
		var err error
		if x.at, err = parsePath(v.FieldPath); err != nil {
			s.problem(field.Invalid(at.Child("fieldPath"), v.FieldPath, err.Error()))
		}
	}
	return x
}

// The reasons of a violation, the same as in policies of the API server.
const (
	Invalid      = "Invalid"
	Forbidden    = "Forbidden"
	Unauthorized = "Unauthorized"
	TooLarge     = "RequestEntityTooLarge"
)

var reasons = []string{Invalid, Forbidden, Unauthorized, TooLarge}

func (s *scope) problem(p *field.Error) { s.problems = append(s.problems, p) }

// compile compiles an expression whose result has the given type; nil: any. It returns nil if there are problems.
func (s *scope) compile(text string, want *cel.Type, at *field.Path) *compiled {
	if strings.TrimSpace(text) == "" {
		s.problem(field.Required(at, "an expression in CEL, such as object.spec.replicas <= 5"))
		return nil
	}
	tree, issues := s.env.Parse(text)
	if issues.Err() == nil {
		if tooMuch := s.patterns.take(tree.NativeRep()); tooMuch != "" { // the check compiles them
			s.problem(field.Forbidden(at, tooMuch))
			return nil
		}
		tree, issues = s.env.Check(tree)
	}
	if issues != nil && issues.Err() != nil {
		s.problem(field.Invalid(at, text, placed(text, issues)))
		return nil
	}
	if is := tree.OutputType(); want != nil && !is.IsExactType(want) {
		s.problem(field.Invalid(at, text, fmt.Sprintf("must result in %s, not %s%s", want, is, compareRemedy(is, want))))
		return nil
	}
	x := &compiled{text: text, result: tree.OutputType()}
	if s.onlyCheck {
		return x
	}
	x.sites, x.loops, x.overloads = sitesOf(tree.NativeRep()), loopsOf(tree.NativeRep()), s.overloads
	for _, note := range s.languageNotes(text, tree.NativeRep()) {
		s.notes = append(s.notes, at.String()+": "+note)
	}
	if err := x.plan(s.env, tree); err != nil {
		s.problem(field.Invalid(at, text, err.Error()))
		return nil
	}
	finder{reads: &x.reads, variables: s.variables}.find(tree.NativeRep().Expr(), nil)
	return x
}

// plan makes the program. It computes what is constant, and the library panics at a map with a key that cannot be one.
func (x *compiled) plan(env *cel.Env, tree *cel.Ast) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("cannot be prepared for evaluation; the keys of maps must be of type bool, int, uint or string")
		}
	}()
	x.program, err = env.Program(tree, cel.CostTracking(&yielding{}), cel.CustomDecoratorV2(x.bounded), cel.CustomDecoratorV2(x.locate))
	return err
}

func compareRemedy(is, want *cel.Type) string {
	if is != cel.DynType {
		return ""
	}
	if want == cel.BoolType {
		return "; compare it: ... == true"
	}
	return "; convert it: string(...)"
}

// declared returns the declaration of a variable's type. What has none is checked when it is evaluated.
func declared(t *cel.Type) *apiservercel.DeclType {
	for _, simple := range []*apiservercel.DeclType{
		apiservercel.BoolType, apiservercel.BytesType, apiservercel.DoubleType, apiservercel.DurationType, apiservercel.IntType,
		apiservercel.NullType, apiservercel.StringType, apiservercel.TimestampType, apiservercel.UintType,
	} {
		if t.IsExactType(simple.CelType()) {
			return simple
		}
	}
	switch p := t.Parameters(); t.Kind() {
	case cel.ListKind:
		return apiservercel.NewListType(declared(p[0]), -1)
	case cel.MapKind:
		return apiservercel.NewMapType(declared(p[0]), declared(p[1]), -1)
	}
	return apiservercel.DynType
}

// ReadsNamespace reports whether an expression of the rule reads namespaceObject.
func (p *Program) ReadsNamespace() bool {
	for _, v := range p.validations {
		if v.reads.namespace || v.message != nil && v.message.reads.namespace {
			return true
		}
	}
	return false
}

// errBudget is the cause of a failure of a rule that costs too much.
var errBudget = errors.New("the rule costs more than the budget of all its expressions; look at fewer elements, or use variables")
