package policytest

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"usher.dev/usher/admit"
	"usher.dev/usher/usherctl/report"
)

// policyTree is a policy as a tree of parts.
type policyTree struct {
	text, file string
	value      any
	lines      *yaml.Node
	parts      []*part
	needed     [][]any              // sections and elements that cannot be left out, alone or with what they are in
	results    map[setting][]Result // those under the policy
}

// addParts adds the parts below a value that can be left out, and reports whether there are any. The policy without a part must
// be valid: what is not is needed, unless it can be left out together with what it is within.
func (t *policyTree) addParts(w *instances, value any, path []any, within bool) (some bool) {
	for _, child := range childrenOf(value, path) {
		if name, ok := child.path[0].(string); len(child.path) == 1 && ok && (unmeasured[name] != "" || name == "apiVersion" || name == "kind") {
			continue
		}
		if key, ok := child.path[len(child.path)-1].(string); ok && slices.Contains(remarks, key) || isNothing(child.value) {
			continue
		}
		at := len(t.parts)
		_, err := w.policy(t.without(child.path))
		removable := err == nil
		if removable {
			t.parts = append(t.parts, &part{path: child.path})
			some = true
		} else if _, element := child.path[len(child.path)-1].(int); !within && (element || len(child.path) == 1) {
			t.needed = append(t.needed, child.path)
		}
		below := t.addParts(w, child.value, child.path, within || removable)
		if removable {
			t.parts[at].leaf = !below
		}
		some = some || below
	}
	return some
}

// isNothing reports whether a value says no more than its absence, such as an empty selector.
func isNothing(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return value == nil
}

// childrenOf returns the members of a mapping or the elements of a list.
func childrenOf(value any, path []any) (all []child) {
	extended := func(by any) []any { return append(slices.Clone(path), by) }
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, child{path: extended(key), value: value[key]})
		}
	case []any:
		for i := range value {
			all = append(all, child{path: extended(i), value: value[i]})
		}
	}
	return all
}

// without returns the policy without a part, as JSON.
func (t *policyTree) without(path []any) string {
	return string(asJSON(removed(t.value, path)))
}

// addSteps adds the steps of an instance that are on and have something to do.
func (t *policyTree) addSteps(w *instance) {
	for _, route := range w.routes {
		for _, s := range route.Chain.Steps() {
			known := slices.ContainsFunc(t.parts, func(p *part) bool { return p.step == s.Name })
			if !known && !s.Idle && s.Mode != admit.Off {
				t.parts = append(t.parts, &part{step: s.Name})
			}
		}
	}
}

// acts reports whether a step changed or refused something in a result.
func (r Result) acts(step string) bool {
	return slices.ContainsFunc(r.Report.Calls, func(c report.Call) bool {
		return slices.ContainsFunc(c.Steps, func(s report.Step) bool { return s.Name == step && len(s.Patch)+len(s.Refused) > 0 })
	})
}

// removed returns the policy without a part, or with a step that is off, as JSON.
func (t *policyTree) removed(p *part) string {
	if p.step == "" {
		return t.without(p.path)
	}
	policy, _ := t.value.(map[string]any)
	modes, _ := policy["modes"].(map[string]any)
	return string(asJSON(with(policy, "modes", with(modes, p.step, "off"))))
}

// with returns a copy of a mapping with another member.
func with(mapping map[string]any, key string, value any) map[string]any {
	other := map[string]any{}
	maps.Copy(other, mapping)
	other[key] = value
	return other
}

// removed returns a copy of a value without a part.
func removed(value any, path []any) any {
	switch value := value.(type) {
	case map[string]any:
		other := map[string]any{}
		for key, member := range value {
			switch {
			case key != path[0]:
				other[key] = member
			case len(path) > 1:
				other[key] = removed(member, path[1:])
			}
		}
		return other
	case []any:
		at := path[0].(int)
		other := slices.Clone(value)
		if len(path) > 1 {
			other[at] = removed(value[at], path[1:])
			return other
		}
		return slices.Delete(other, at, at+1)
	}
	return value
}
