package validators

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

const (
	labelRulesName = "label-rules"
	labelRulesDoc  = "refuses labels and annotations, of pods, workloads' templates and objects of other kinds, that the policy does not allow; " +
		"stored ones may stay"
)

// labelRules refuses new pods whose labels or annotations break a rule, and updates that bring such a value, remove a
// required one or change an immutable one.
func labelRules(rules LabelRules, ask admit.Questions) admit.Validator[admit.Pod] {
	compiled := compileLabelRules(rules, func(r LabelRule) bool { return r.Match == nil })
	return admit.Validator[admit.Pod]{
		Name: labelRulesName, Doc: labelRulesDoc, For: admit.Pods(admissionv1.Create, admissionv1.Update),
		Needs: []string{admit.CollectionNamespaces}, Section: labelRulesSection, Idle: len(compiled) == 0,
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			return judgeObject(ctx, req, pod.Meta, compiled, ask)
		},
	}
}

// judgeObject returns the problems of the metadata of the object under review.
func judgeObject(ctx context.Context, req *admit.Request, now admit.Meta, rules []labelRule, ask admit.Questions) (field.ErrorList, error) {
	if finalizing(req) {
		return nil, nil
	}
	judged := labelled{at: now, now: now}
	if req.OldObject != nil {
		judged.old = admit.AsMeta(req.OldObject)
	}
	return judgeLabels(ctx, req, rules, &judged, ask.LabelsOfNamespace(req))
}

// finalizing reports whether a request is an update of an object that only its finalizers keep. It is not judged,
// because they could not be removed.
func finalizing(req *admit.Request) bool {
	if req.Operation != admissionv1.Update || !admit.AsMeta(req.Object).Ended() {
		return false
	}
	req.Explain("only finalizers keep the object, and no rule may prevent its deletion")
	return true
}

// labelled holds the object that the rules judge.
type labelled struct {
	now admit.Meta
	old *admit.Meta // as stored; nil on CREATE
	at  admit.Meta  // the view whose paths problems have
	// renewed is set if an update of a workload changes the template, so that its pods are made anew.
	renewed bool
	// steps is how many steps were taken at most to match values.
	steps int
}

// labelRule is a compiled rule.
type labelRule struct {
	LabelRule
	selection config.CompiledSelection
	anywhere  config.CompiledSelection // without the namespaceSelector
	rules     []admit.Rule             // of a rule with a match
	values    *ValueRule
}

// compileLabelRules compiles those of some rules that a step judges by.
func compileLabelRules(rules LabelRules, judges func(LabelRule) bool) (all []labelRule) {
	for _, rule := range rules {
		if !judges(rule) {
			continue
		}
		compiled := labelRule{LabelRule: rule, selection: rule.Selection.Compile(), values: rule.Compile()}
		if m := rule.Match; m != nil {
			compiled.rules = m.Rules()
			compiled.selection = config.Selection{NamespaceSelector: m.NamespaceSelector, PodSelector: m.ObjectSelector}.Compile()
			compiled.anywhere = config.Selection{PodSelector: m.ObjectSelector}.Compile()
		}
		all = append(all, compiled)
	}
	return all
}

// judgeLabels returns the problems under all rules that select the object. namespace returns the labels of its namespace.
func judgeLabels(
	ctx context.Context, req *admit.Request, rules []labelRule, object *labelled, namespace func() (map[string]string, error),
) (problems field.ErrorList, _ error) {
	for i := range rules {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if rules[i].Match != nil && !admit.RulesCover(rules[i].rules, req) {
			continue
		}
		problem, err := rules[i].judge(req, object, namespace)
		if err != nil {
			return nil, err
		}
		if problem != nil {
			problem.Origin = rules[i].Name // see ofTemplate
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// judge returns the problem of an object under one rule, or nil. The stored object counts only if the rule selects it:
// what the rule did not apply to is no violation that may stay.
func (r *labelRule) judge(req *admit.Request, object *labelled, namespace func() (map[string]string, error)) (*field.Error, error) {
	var selected admit.Ratchet
	var err error
	if selected.Is, err = r.selects(req, object.now, namespace); err != nil {
		return nil, err
	}
	same := false
	value, has := r.of(object.now)
	if object.old != nil {
		if selected.Was, err = r.selects(req, *object.old, namespace); err != nil {
			return nil, err
		}
		was, had := r.of(*object.old)
		if same = has == had && value == was; selected.Was && r.Immutable && had && !same {
			return r.changed(object.at, was), nil
		}
	}
	switch {
	case !selected.Is:
		req.Explain("rule %s does not select the object", r.Name)
		return nil, nil
	case selected.MayStay(same):
		r.keep(req, object, value, has)
		return nil, nil
	}
	problem := r.broken(object, value, has)
	if problem == nil {
		req.Explain("rule %s: %s is as it requires", r.Name, r.Key())
	}
	return problem, nil
}

// keep accepts what is stored already, whether or not the rule would accept it in a new object.
func (r *labelRule) keep(req *admit.Request, object *labelled, value string, has bool) {
	req.Explain("rule %s: %s is as it is stored, and may stay", r.Name, r.Key())
	if !object.renewed {
		return
	}
	if problem := r.broken(object, value, has); problem != nil {
		req.Warnf("the new pods of this template will be refused: %v", problem)
	}
}

// of returns the value of the rule's label or annotation, and whether it is present.
func (r *labelRule) of(m admit.Meta) (value string, has bool) {
	if r.Label == "" {
		return m.Annotation(r.Annotation)
	}
	return m.Label(r.Label), m.HasLabel(r.Label)
}

func (r *labelRule) path(at admit.Meta) *field.Path {
	if r.Label == "" {
		return at.AnnotationPath(r.Annotation)
	}
	return at.LabelPath(r.Label)
}

// broken returns the problem of a value, or of its absence, without regard to what is stored.
func (r *labelRule) broken(object *labelled, value string, has bool) *field.Error {
	if !has {
		if !r.Required {
			return nil
		}
		return field.Required(r.path(object.at), r.say("set it"+r.requirement()))
	}
	if tooLong := r.tooLong(object, value); tooLong != nil {
		return tooLong
	}
	if !r.values.Accepts(value) {
		return field.Invalid(r.path(object.at), value, r.say("change it"+r.requirement()))
	}
	return nil
}

// maxSteps is how many steps it may take at most to match the values of one object with patterns: about a quarter of a second.
const maxSteps = 1 << 24

// tooLong returns the problem of a value that Kubernetes does not store, or that takes too many steps to match. Neither is matched.
func (r *labelRule) tooLong(object *labelled, value string) *field.Error {
	most, of := validation.LabelValueMaxLength, "a label"
	if r.Label == "" {
		most, of = apivalidation.TotalAnnotationSizeLimitB, "all annotations together"
	}
	text := fmt.Sprintf("has %d bytes, and Kubernetes stores at most %d of %s; shorten it", len(value), most, of)
	if len(value) <= most {
		if object.steps += r.values.Steps(value); object.steps <= maxSteps {
			return nil
		}
		text = fmt.Sprintf("has %d bytes, too many to compare with the pattern %s; shorten it, or add maxLength to the rule", len(value), r.Pattern)
	}
	return &field.Error{Type: field.ErrorTypeTooLong, Field: r.path(object.at).String(), BadValue: field.OmitValueType{}, Detail: r.say(text)}
}

func (r *labelRule) changed(at admit.Meta, was string) *field.Error {
	return field.Forbidden(r.path(at), r.say(fmt.Sprintf("is immutable and was %q; keep that value, or create another object", was)))
}

// requirement returns what a value must be, such as " to one of a, b".
func (r *labelRule) requirement() string {
	var all []string
	if len(r.Values) > 0 {
		all = append(all, "one of "+strings.Join(r.Values, ", "))
	}
	if r.Pattern != "" {
		all = append(all, "a value that matches "+r.Pattern)
	}
	if r.MaxLength > 0 {
		all = append(all, fmt.Sprintf("at most %d characters", r.MaxLength))
	}
	if len(all) == 0 {
		return ""
	}
	return " to " + strings.Join(all, " and ")
}

// say returns a message with the rule's name and its own message.
func (r *labelRule) say(text string) string {
	text = "rule " + r.Name + ": " + text
	if r.Message != "" {
		text += "; " + r.Message
	}
	return text
}
