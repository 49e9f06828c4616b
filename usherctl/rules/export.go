package rules

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/validators/expression"
	"usher.dev/usher/validators/requests"
)

// step is the step that evaluates the rules, and path that of its route.
const step, path = "rules", "/validate-rules"

// Exported is the result of exporting a rule.
type Exported struct {
	Name    string
	Objects [][]byte // YAML: the policy and its bindings
	Why     string   // the rule is not exported; "": it is
}

// Of returns what the rules of a policy become. The error is a bug.
func Of(ctx context.Context, suites suite.List, policy *config.Policy) (all []Exported, err error) {
	rules := config.SectionOf[expression.Rules](policy)
	if len(rules) == 0 {
		return nil, nil
	}
	api, err := engine.New(ctx, engine.Cluster{})
	if err != nil {
		return nil, err
	}
	defer api.Close()
	table := suites.Table(policy, gate.Defaults(suites.Gates()))
	i := slices.IndexFunc(table, func(r admit.Route) bool { return r.Path == path })
	x := exporting{route: table[i], mode: config.SectionOf[admit.Modes](policy).Of(step), api: api}
	for _, o := range config.SectionOf[override.List](policy).Compile() {
		if o.Concerns(step) && !o.Void(time.Now()) {
			x.override = o.Name
		}
	}
	for i := range rules {
		all = append(all, x.rule(ctx, &rules[i]))
	}
	return all, nil
}

// exporting has what all rules have in common.
type exporting struct {
	route    admit.Route
	mode     admit.Mode
	override string // one that is about the rules; "": none is
	api      *engine.Engine
}

// actions are the actions of a binding for the modes of the step.
var actions = map[admit.Mode]registration.ValidationAction{
	admit.Enforce: registration.Deny, admit.Warn: registration.Warn, admit.DryRun: registration.Audit}

func (x *exporting) rule(ctx context.Context, rule *expression.Rule) (e Exported) {
	e.Name = rule.Name
	if e.Why = x.unable(rule); e.Why != "" {
		return e
	}
	for _, object := range x.objects(rule) {
		text, err := yamlOf(object)
		if err != nil {
			return Exported{Name: rule.Name, Why: err.Error()}
		}
		if v := x.api.Judge(ctx, engine.Request{Operation: admissionv1.Create, Object: text}); !v.Allowed() {
			return Exported{Name: rule.Name, Why: "an API server refuses it: " + v.Refusal.Message}
		}
		e.Objects = append(e.Objects, text)
	}
	return e
}

// unable returns why a rule cannot be exported, or "".
func (x *exporting) unable(rule *expression.Rule) string {
	kept := slices.ContainsFunc(rule.Unchanged(), func(parts [][]string) bool { return parts != nil })
	switch {
	case x.mode == admit.Off:
		return "the mode of step rules is off"
	case x.override != "":
		return "the override " + x.override + " is about step rules, and a ValidatingAdmissionPolicy has none"
	case kept && updates(rule) && (rule.Match.ObjectSelector != nil || rule.Match.NamespaceSelector != nil && ofNamespaces(rule)):
		return "it lets unchanged violations pass, unless an update makes its selector select the object, which no expression can tell; " +
			"ratchet: false makes them refused"
	}
	return ""
}

// updates reports whether a rule is for updates.
func updates(rule *expression.Rule) bool {
	return slices.ContainsFunc(rule.Match.Rules(), func(r admit.Rule) bool { return slices.Contains(r.Operations, admissionv1.Update) })
}

// ofNamespaces reports whether a rule may be for Namespaces, whose selector is about their own labels.
func ofNamespaces(rule *expression.Rule) bool {
	return slices.ContainsFunc(rule.Match.Rules(), func(r admit.Rule) bool {
		return slices.ContainsFunc(r.Resources, func(name string) bool {
			return strings.HasPrefix(name, "*") || strings.HasPrefix(name, "namespaces")
		})
	})
}

// objects returns the policy of a rule, and a binding for each webhook that is called for it.
func (x *exporting) objects(rule *expression.Rule) []any {
	name := rule.Name + "." + x.route.Webhook()
	all := []any{&registration.ValidatingAdmissionPolicy{TypeMeta: typeOf("ValidatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: x.spec(rule)}}
	part := x.route
	part.For = admit.AnyKind(rule.Match.Rules())
	entries := webhooks.Entries([]admit.Route{part})
	if slices.ContainsFunc(entries, func(e webhooks.Entry) bool { return e.Scope == registration.NamespacedScope }) && namespaced(rule) {
		entries = slices.DeleteFunc(entries, func(e webhooks.Entry) bool { return e.Scope == registration.ClusterScope })
	}
	for _, entry := range entries {
		everything := registration.RuleWithOperations{Operations: []registration.OperationType{registration.OperationAll}, Rule: registration.Rule{
			APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}, Scope: &entry.Scope}}
		all = append(all, &registration.ValidatingAdmissionPolicyBinding{TypeMeta: typeOf("ValidatingAdmissionPolicyBinding"),
			ObjectMeta: metav1.ObjectMeta{Name: rule.Name + "." + entry.Name}, Spec: registration.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
				ValidationActions: []registration.ValidationAction{actions[x.mode]},
				MatchResources: &registration.MatchResources{NamespaceSelector: entry.Namespaces(webhooks.Address{Namespace: "usher"}),
					ResourceRules: []registration.NamedRuleWithOperations{{RuleWithOperations: everything}}}}})
	}
	return all
}

// namespaced reports whether all resources that a rule names are known to be namespaced, so that a binding for cluster-scoped ones never matches.
func namespaced(rule *expression.Rule) bool {
	known := resources.BuiltIn()
	return !slices.ContainsFunc(rule.Match.Rules(), func(r admit.Rule) bool {
		return r.Scope != registration.NamespacedScope && slices.ContainsFunc(r.Groups, func(group string) bool {
			return slices.ContainsFunc(r.Resources, func(name string) bool {
				base, _, _ := strings.Cut(name, "/")
				of, is := known.Groups[group][base]
				return !is || of.ClusterScoped
			})
		})
	})
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: registration.SchemeGroupVersion.String(), Kind: kind}
}

func (x *exporting) spec(rule *expression.Rule) registration.ValidatingAdmissionPolicySpec {
	failure := x.route.FailurePolicy
	if rule.OnError == expression.Deny || failure == "" {
		failure = registration.Fail
	}
	spec := registration.ValidatingAdmissionPolicySpec{FailurePolicy: &failure, MatchConstraints: constraints(&rule.Match)}
	for _, v := range rule.Variables {
		spec.Variables = append(spec.Variables, registration.Variable{Name: v.Name, Expression: v.Expression})
	}
	for _, c := range rule.MatchConditions {
		spec.MatchConditions = append(spec.MatchConditions, registration.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	unchanged := rule.Unchanged()
	for i, v := range rule.Validations {
		spec.Validations = append(spec.Validations, validation(v, unchanged[i], updates(rule)))
	}
	return spec
}

// validation returns a validation; in an update, a violation passes of which all parts are unchanged, unless there are none.
func validation(v expression.Validation, unchanged [][]string, updates bool) registration.Validation {
	is := registration.Validation{Expression: v.Expression, Message: strings.TrimSpace(v.Message), MessageExpression: v.MessageExpression}
	if v.Reason != "" {
		is.Reason = new(metav1.StatusReason(v.Reason))
	}
	if unchanged == nil || !updates {
		return is
	}
	if is.Message == "" {
		is.Message = "failed expression: " + strings.Join(strings.Fields(v.Expression), " ")
	}
	same := []string{"request.operation == 'UPDATE'"}
	for _, part := range unchanged {
		for _, text := range sameAt(part) {
			if !slices.Contains(same, text) {
				same = append(same, text)
			}
		}
	}
	// the conditional, unlike ||, has no result if the expression has none
	is.Expression = fmt.Sprintf("(\n%s\n) ? true :\n%s", v.Expression, strings.Join(same, " &&\n"))
	return is
}

// sameAt returns expressions that are true if two objects have the same at a path, and the same parents of it.
func sameAt(part []string) (all []string) {
	is, was := "object", "oldObject"
	for i, name := range part {
		if i > 0 {
			all = append(all, fmt.Sprintf("%s.hasValue() == %s.hasValue()", is, was))
		}
		selected := selectorOf(name)
		is, was = is+selected, was+selected
	}
	return append(all, is+" == "+was)
}

var identifier = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

// selectorOf returns the optional selection of a field.
func selectorOf(name string) string {
	if identifier.MatchString(name) && !slices.Contains(reserved, name) {
		return ".?" + name
	}
	return "[?" + strconv.Quote(name) + "]"
}

// reserved are the identifiers that CEL keeps to itself.
var reserved = []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace",
	"null", "package", "return", "true", "var", "void", "while"}

func constraints(m *requests.Match) *registration.MatchResources {
	of := &registration.MatchResources{NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector,
		MatchPolicy: new(registration.Equivalent)}
	m.Each(nil, func(one *requests.Requests, _ *field.Path) {
		of.ResourceRules = append(of.ResourceRules, ruleOf(one.Rule()))
	})
	for _, one := range m.ExcludeResourceRules {
		of.ExcludeResourceRules = append(of.ExcludeResourceRules, ruleOf(one.Rule()))
	}
	return of
}

func ruleOf(r admit.Rule) registration.NamedRuleWithOperations {
	rule := registration.NamedRuleWithOperations{ResourceNames: r.Names, RuleWithOperations: registration.RuleWithOperations{
		Rule: registration.Rule{APIGroups: r.Groups, APIVersions: r.Versions, Resources: r.Resources}}}
	if r.Scope != "" {
		rule.Scope = &r.Scope
	}
	for _, o := range r.Operations {
		rule.Operations = append(rule.Operations, registration.OperationType(o))
	}
	return rule
}

// yamlOf returns an object as YAML, without a status.
func yamlOf(object any) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	if metadata, is := fields["metadata"].(map[string]any); is && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	return yaml.Marshal(fields)
}
