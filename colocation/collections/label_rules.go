package collections

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
)

// DefaultLabelRules is the ConfigMap where Koordinator keeps the rules of its enhanced pod validator.
var DefaultLabelRules = types.NamespacedName{Namespace: "koordinator-system", Name: "pod-enhanced-validator-config"}

// LabelRules is the ConfigMap with the rules of the enhanced pod validator, compiled to the rules.
var LabelRules = &cluster.Compiled[map[string]string, []api.LabelRule]{
	Collection: cluster.Collection[map[string]string]{
		Name: api.CollectionLabelRules, Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true,
		Only: DefaultLabelRules, Keep: configMapData,
	},
	Compile: compileLabelRules,
}

// configMapData keeps the data of a ConfigMap.
var configMapData = cluster.Keep(func(o *corev1.ConfigMap) map[string]string { return o.Data })

// compileLabelRules parses the keys "enable" and "rules" of the ConfigMap. Without a ConfigMap there are no rules. If
// the rules do not parse, the error keeps the previous state, including "enable".
func compileLabelRules(all cluster.Objects[map[string]string]) (rules []api.LabelRule, problems []error, err error) {
	found := all.Sorted()
	if len(found) == 0 {
		return nil, nil, nil
	}
	data := found[0]
	if text, ok := data["rules"]; ok {
		var warnings []string
		if rules, warnings, err = api.ParseFolded[[]api.LabelRule](field.NewPath("data").Key("rules"), text); err != nil {
			return nil, nil, fmt.Errorf("data key rules: %w: the rules in force stay", err)
		}
		for _, w := range warnings {
			problems = append(problems, errors.New(w))
		}
	}
	problems = append(problems, cleanRules(rules)...)
	if !strings.EqualFold(strings.TrimSpace(data["enable"]), "true") {
		return nil, problems, nil
	}
	return rules, problems, nil
}

// cleanRules removes empty namespaces and reports the rules that require nothing.
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

// LabelRules returns the rules of the enhanced pod validator, in their order; none if it is not enabled.
func (q Questions) LabelRules() ([]api.LabelRule, error) { return LabelRules.Get(q.Now()) }
