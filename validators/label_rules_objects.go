package validators

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// objectLabelRules judges objects of any kind by the rules with a match.
func objectLabelRules(rules LabelRules, ask admit.Questions) admit.Validator[admit.Meta] {
	compiled := compileLabelRules(rules, func(r LabelRule) bool { return r.Match != nil })
	return admit.Validator[admit.Meta]{
		Name: labelRulesName, Doc: labelRulesDoc, For: admit.AnyKind(rules.Rules()),
		Needs: []string{admit.CollectionNamespaces}, Section: labelRulesSection, Idle: len(compiled) == 0,
		Run: func(ctx context.Context, req *admit.Request, object *admit.Meta) (field.ErrorList, error) {
			return judgeObject(ctx, req, *object, compiled, ask)
		},
	}
}

// selects reports whether the rule selects an object. A namespaceSelector selects a Namespace by its own labels, and does not
// concern other objects outside of namespaces.
func (r *labelRule) selects(req *admit.Request, object admit.Meta, namespace func() (map[string]string, error)) (bool, error) {
	switch {
	case r.Match == nil:
	case req.AboutNamespace():
		namespace = func() (map[string]string, error) { return object.Labels(), nil }
	case req.Namespace == "":
		return r.anywhere.Matches(object.Selectable(), namespace)
	}
	return r.selection.Matches(object.Selectable(), namespace)
}
