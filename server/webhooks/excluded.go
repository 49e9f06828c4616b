package webhooks

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
)

// excluded returns the match condition that leaves out the requests that no match of an entry is for, although its rules
// name them: rules cannot exclude. What only some matches leave out is sent, and those leave it out.
func excluded(e Entry) (all []registration.MatchCondition) {
	var texts []string
	for _, m := range e.For {
		for _, except := range m.Except {
			if text := requestsText(except); !slices.Contains(texts, text) && inScopeOf(except, e.Scope) && e.everyMatchExcludes(except) {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return []registration.MatchCondition{{Name: "not-excluded", Expression: "!(" + strings.Join(texts, " ||\n") + ")"}}
}

// everyMatchExcludes reports whether all matches of an entry that may cover requests of a rule leave them out.
func (e Entry) everyMatchExcludes(rule admit.Rule) bool {
	return !slices.ContainsFunc(e.For, func(m admit.Match) bool {
		return m.Overlaps(rule) && !slices.ContainsFunc(m.Except, func(other admit.Rule) bool { return reflect.DeepEqual(rule, other) })
	})
}

func inScopeOf(rule admit.Rule, scope registration.ScopeType) bool {
	return rule.Scope == "" || rule.Scope == registration.AllScopes || rule.Scope == scope
}

// requestsText returns a CEL expression that is true for the requests of a rule, in all versions and in its scope. It cannot
// fail, which would refuse the request.
func requestsText(r admit.Rule) string {
	parts := []string{resourcesText(r.Resources), oneOf("request.operation", r.Operations)}
	if !slices.Contains(r.Groups, "*") {
		parts = append(parts, oneOf("request.resource.group", r.Groups))
	}
	if len(r.Names) > 0 {
		parts = append(parts, nameText(r.Names))
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " && ")
}

// nameText is the part of requestsText for the names of objects, see admit.Request.TargetName. What is connected to has no metadata.
func nameText(names []string) string {
	return fmt.Sprintf(`(has(request.name) && request.name != "" ? %s : `+
		`[oldObject, object].exists(o, o != null && has(o.metadata) && has(o.metadata.name) && %s))`,
		oneOf("request.name", names), oneOf("o.metadata.name", names))
}

// resourcesText is the part of requestsText for the resources and their subresources; empty for all.
func resourcesText(resources []string) string {
	var all []string
	for _, name := range resources {
		base, sub, _ := strings.Cut(name, "/")
		var parts []string
		if base != "*" {
			parts = append(parts, fmt.Sprintf("request.resource.resource == %q", base))
		}
		switch sub {
		case "*":
		case "":
			parts = append(parts, `(!has(request.subResource) || request.subResource == "")`)
		default:
			parts = append(parts, fmt.Sprintf("has(request.subResource) && request.subResource == %q", sub))
		}
		if len(parts) == 0 {
			return ""
		}
		all = append(all, strings.Join(parts, " && "))
	}
	return "(" + strings.Join(all, " || ") + ")"
}

// oneOf is a CEL expression that is true if a field has one of some values.
func oneOf[T ~string](field string, values []T) string {
	var quoted []string
	for _, value := range values {
		quoted = append(quoted, fmt.Sprintf("%q", string(value)))
	}
	return fmt.Sprintf("%s in [%s]", field, strings.Join(quoted, ", "))
}
