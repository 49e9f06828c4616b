package cluster

import (
	"fmt"
	"slices"
	"strings"

	"usher.dev/usher/api"
)

// compileEnhancedRules makes []api.LabelRule of the ConfigMap: of its keys "enable" and "rules". No ConfigMap: no rules. Rules
// that do not parse leave everything as it was, "enable" too.
func compileEnhancedRules(s *Snapshot) (any, []error) {
	found, err := sorted[map[string]string](s, EnhancedRules)
	if err != nil {
		return nil, []error{err}
	}
	none := []api.LabelRule(nil)
	if len(found) == 0 {
		return none, nil
	}
	data := found[0]
	rules := none
	if text, ok := data["rules"]; ok {
		if rules, err = api.ParseJSONText[[]api.LabelRule](text); err != nil {
			return nil, []error{fmt.Errorf("data key rules: %w: the rules in force stay", err)}
		}
	}
	problems := cleanRules(rules)
	if !strings.EqualFold(strings.TrimSpace(data["enable"]), "true") {
		return none, problems
	}
	return rules, problems
}

// cleanRules drops empty namespaces, and tells which rules ask for nothing.
func cleanRules(rules []api.LabelRule) (problems []error) {
	for i := range rules {
		r := &rules[i]
		r.NamespaceWhitelist = slices.DeleteFunc(r.NamespaceWhitelist, func(name string) bool { return name == "" })
		if len(r.RequiredLabels) == 0 {
			problems = append(problems,
				fmt.Errorf("data key rules: rule %d (%s) requires no labels (requiredLabels), so it never denies", i+1, r.Name))
		}
	}
	return problems
}
