package expression

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/validators/requests"
)

// Rules are checks of objects of any kind, written in CEL.
type Rules []Rule

// Rule is a list of validations, and the requests that they are for. Its expressions are written as in a
// ValidatingAdmissionPolicy.
type Rule struct {
	// Name is shown with each refusal.
	Name string `json:"name"`
	// Match names the requests that the rule is for.
	Match RuleMatch `json:"match"`
	// MatchConditions are expressions that must all be true for the rule to apply.
	MatchConditions []Named `json:"matchConditions,omitempty"`
	// Variables are expressions that others use as variables.NAME; each is evaluated once, when it is needed.
	Variables   []Named      `json:"variables,omitempty"`
	Validations []Validation `json:"validations"`
	// Ratchet lets an unchanged violation of a stored object pass. Default: true.
	Ratchet *bool `json:"ratchet,omitempty"`
	// OnError says what happens if an expression fails. Default: fail.
	OnError OnError `json:"onError,omitempty"`

	compiled *compiledRule
}

// RuleMatch says which requests a rule is for.
type RuleMatch struct {
	requests.Requests
	// NamespaceSelector selects objects by the labels of their namespace; it does not concern cluster-scoped objects.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ObjectSelector selects objects by their own labels, those that they have or had.
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
}

// OnError says what happens if an expression has no result.
type OnError string

const (
	// Fail makes it usher's failure: the failurePolicy of the webhook decides.
	Fail OnError = "fail"
	// Deny refuses the request.
	Deny OnError = "deny"
)

// compiledRule is a rule, compiled once.
type compiledRule struct {
	program             *Program
	requests            admit.Rule
	namespaces, objects labels.Selector // nil: all
}

// section is the section rules.
var section = config.Section[Rules]{Name: "rules", Check: Rules.check, Warnings: Rules.warnings, ReadsNamespace: func(name string, value any) bool {
	text, _ := value.(string)
	return (name == "expression" || name == "messageExpression") && strings.Contains(text, namespaceName)
}}

// check returns all problems of the section. It compiles the rules, so that no expression is compiled twice.
func (r Rules) check(at *field.Path) (problems field.ErrorList) {
	if len(r) == 0 {
		return nil // without rules, nothing of CEL is set up
	}
	compiler, err := NewCompiler()
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	return check.Named(r, at, func(e *Rule) string { return e.Name }, func(e *Rule, at *field.Path) field.ErrorList { return e.check(compiler, at) })
}

func (r *Rule) check(compiler *Compiler, at *field.Path) (problems field.ErrorList) {
	if len(kubevalidation.IsDNS1123Label(r.Name)) > 0 {
		problems = append(problems, field.Invalid(at.Child("name"), r.Name,
			"must be a name of lower-case letters, digits and '-': it is shown with each refusal"))
	}
	problems = append(problems, r.Match.Check(at.Child("match"))...)
	if len(r.Validations) == 0 {
		problems = append(problems, field.Required(at.Child("validations"), "such as [{expression: object.spec.replicas <= 5}]"))
	}
	if !slices.Contains([]OnError{"", Fail, Deny}, r.OnError) {
		problems = append(problems, field.NotSupported(at.Child("onError"), r.OnError, []OnError{Fail, Deny}))
	}
	program, wrong := compiler.Compile(Expressions{Conditions: r.MatchConditions, Variables: r.Variables, Validations: r.Validations}, at)
	if problems = append(problems, wrong...); len(problems) == 0 {
		r.compiled = &compiledRule{program, r.Match.Rule(), selector.Compile(r.Match.NamespaceSelector), selector.Compile(r.Match.ObjectSelector)}
	}
	return problems
}

// Check returns all problems of the fields.
func (m *RuleMatch) Check(at *field.Path) field.ErrorList {
	problems := m.Requests.Check(at)
	if m.NamespaceSelector != nil {
		problems = append(problems, selector.Check(m.NamespaceSelector, at.Child("namespaceSelector"))...)
	}
	if m.ObjectSelector != nil {
		problems = append(problems, selector.Check(m.ObjectSelector, at.Child("objectSelector"))...)
	}
	return problems
}

// Rules returns the requests that the rules are for, as rules of a webhook.
func (r Rules) Rules() (all []admit.Rule) {
	for i := range r {
		all = append(all, r[i].Match.Rule())
	}
	return all
}

// warnings returns the rules that some versions of their objects do not reach. The API server converts an object to a
// version that a rule names, unless another rule of the webhook names the version in which it was sent.
func (r Rules) warnings(_ *config.Policy, at *field.Path) (texts []string) {
	for i := range r {
		own := r[i].Match.Rule()
		for j := range r {
			other := r[j].Match.Rule()
			missed := slices.DeleteFunc(slices.Clone(other.Versions), func(v string) bool { return slices.Contains(own.Versions, v) })
			if len(missed) > 0 && !slices.Contains(own.Versions, "*") && own.Overlaps(other) {
				texts = append(texts, fmt.Sprintf("%s: rule %s is for versions %s only, but rule %s makes the API server send version %s unconverted, "+
					"and so past this rule; write the same apiVersions in both", at.Index(i).Child("match", "apiVersions"), r[i].Name,
					strings.Join(own.Versions, ", "), r[j].Name, strings.Join(missed, ", ")))
				break
			}
		}
	}
	return texts
}

// Program returns the compiled expressions. The rule must have been checked.
func (r *Rule) Program() *Program { return r.compiled.program }

// Covers reports whether the rule is for a request, apart from its selectors. The rule must have been checked.
func (r *Rule) Covers(req *admit.Request) bool { return r.compiled.requests.Covers(req) }

// Selectors returns the compiled selectors; a nil selector selects everything. The rule must have been checked.
func (r *Rule) Selectors() (namespaces, objects labels.Selector) {
	return r.compiled.namespaces, r.compiled.objects
}

// Ratchets reports whether an unchanged violation of a stored object passes.
func (r *Rule) Ratchets() bool { return r.Ratchet == nil || *r.Ratchet }
