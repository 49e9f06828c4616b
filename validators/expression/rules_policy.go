package expression

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	kubevalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/validators/requests"
)

// Rules are checks of objects of any kind, written in CEL.
type Rules []Rule

// Rule is a list of validations, and the requests that they are for. Its expressions are written as in a
// ValidatingAdmissionPolicy.
type Rule struct {
	Name            string         `json:"name" doc:"shown with each refusal" schema:"required,is=dns-label"`
	Match           requests.Match `json:"match" doc:"the requests that the rule is for" schema:"required"`
	MatchConditions []Named        `json:"matchConditions,omitempty" doc:"expressions that must all be true for the rule to apply"`
	Variables       []Named        `json:"variables,omitempty" doc:"expressions that others use as variables.NAME; each is evaluated at most once, when it is needed"`
	Validations     []Validation   `json:"validations" doc:"expressions that must all be true" schema:"required,items=1"`
	Ratchet         *bool          `json:"ratchet,omitempty" doc:"lets an unchanged violation of a stored object pass" default:"true"`
	OnError         OnError        `json:"onError,omitempty" doc:"what happens if an expression has no result: fail makes usher's call fail, and the webhook's failurePolicy decides; deny refuses the request" schema:"enum=fail|deny" default:"fail"`

	compiled *compiledRule // once the rule has been checked
}

// OnError says what happens if an expression has no result.
type OnError string

const (
	// Fail makes it usher's failure: the failurePolicy of the webhook decides.
	Fail OnError = "fail"
	// Deny refuses the request.
	Deny OnError = "deny"
)

// compiledRule holds the compiled fields of a rule that was checked.
type compiledRule struct {
	program             *Program
	covered             []admit.Rule
	namespaces, objects labels.Selector // nil: all
	ratchets            bool
}

// section is the section rules.
var section = config.Section[Rules]{Name: "rules", Check: Rules.check, Warnings: Rules.warnings,
	Tag: `doc:"checks of objects of any kind in CEL, written as in a ValidatingAdmissionPolicy" schema:"most=2000"`, ReadsNamespace: func(name string, value any) bool {
		text, _ := value.(string)
		return (name == "expression" || name == "messageExpression") && strings.Contains(text, namespaceName)
	}}

// check returns all problems of the section. It compiles the rules, so that no expression is compiled twice.
func (r Rules) check(at *field.Path) (problems field.ErrorList) {
	if len(r) == 0 {
		return nil // without rules, nothing of CEL is set up
	}
	left, tooMuch := r.checkMemory(at)
	if len(tooMuch) > 0 {
		return tooMuch
	}
	if tooMany := requests.CheckNumber(len(r.Rules()), at); len(tooMany) > 0 {
		return tooMany
	}
	compiler, err := NewCompiler()
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	compiler.patterns = left
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
	program, wrong := compiler.Compile(r.expressions(), at)
	if problems = append(problems, wrong...); len(problems) == 0 {
		r.compiled = &compiledRule{program, r.Match.Rules(), selector.Compile(r.Match.NamespaceSelector), selector.Compile(r.Match.ObjectSelector),
			r.Ratchet == nil || *r.Ratchet}
	}
	return problems
}

func (r *Rule) expressions() Expressions {
	return Expressions{Conditions: r.MatchConditions, Variables: r.Variables, Validations: r.Validations}
}

// Unchanged returns for each validation the parts of the object of which an update must leave all unchanged for a violation to pass, as paths of
// fields; nil: none passes. The rule must have been checked.
func (r *Rule) Unchanged() (all [][][]string) {
	for _, v := range r.compiled.program.validations {
		if r.compiled.ratchets {
			all = append(all, v.kept)
		} else {
			all = append(all, nil)
		}
	}
	return all
}

// Rules returns the requests that the rules are for, as rules of a webhook.
func (r Rules) Rules() (all []admit.Rule) {
	for i := range r {
		all = append(all, r[i].Match.Rules()...)
	}
	return all
}

// warnings returns what no rule can be for, and what some rules are not reached by.
func (r Rules) warnings(_ *config.Policy, at *field.Path) (texts []string) {
	known := resources.BuiltIn()
	for i := range r {
		texts = append(texts, r[i].Match.Warnings(at.Index(i).Child("match"), known)...)
	}
	texts = append(texts, r.missed(at)...)
	return append(texts, r.versionNotes(at)...)
}

// missed returns the rules that some versions of their objects do not reach. The API server converts an object to a
// version that a rule names, unless another rule of the webhook names the version in which it was sent.
func (r Rules) missed(at *field.Path) (texts []string) {
	rules := make([][]admit.Rule, len(r))
	for i := range r {
		rules[i] = r[i].Match.Rules()
	}
	for i, own := range rules {
		for j := range r {
			if versions, missed := missedVersions(own, rules[j]); i != j && len(missed) > 0 {
				texts = append(texts, fmt.Sprintf("%s: rule %s is for versions %s only, but rule %s makes the API server send version %s unconverted, "+
					"and so past this rule; write the same apiVersions in both", at.Index(i).Child("match", "apiVersions"), r[i].Name,
					strings.Join(versions, ", "), r[j].Name, strings.Join(missed, ", ")))
				break
			}
		}
	}
	return texts
}

// versionNotes returns the expressions that mean something else, or nothing, in a ValidatingAdmissionPolicy of an older
// version of Kubernetes.
func (r Rules) versionNotes(at *field.Path) (texts []string) {
	old := oldCompilers{}
	for i := range r {
		texts = append(texts, r[i].compiled.program.notes...)
		texts = append(texts, old.notes(r[i].expressions(), at.Index(i))...)
	}
	return texts
}

// missedVersions returns versions that others cover of a resource, of which own covers only those that it names.
func missedVersions(own, others []admit.Rule) (named, missed []string) {
	for _, b := range others {
		first := slices.IndexFunc(own, b.Overlaps)
		if first < 0 {
			continue
		}
		missed = slices.DeleteFunc(slices.Clone(b.Versions), func(v string) bool {
			return slices.ContainsFunc(own, func(o admit.Rule) bool {
				return (slices.Contains(o.Versions, v) || slices.Contains(o.Versions, "*")) && o.Overlaps(b)
			})
		})
		if len(missed) > 0 {
			return own[first].Versions, missed
		}
	}
	return nil, nil
}
