package cluster

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules returns the RBAC rules that watching the needed collections requires, for a ClusterRole: one for each API
// group, and one for each collection of a single object.
func (o Options) Rules() []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "watch"}
	var rules []rbacv1.PolicyRule
	for _, declared := range o.Catalogue {
		r := declared.row()
		if !slices.Contains(o.Needs, r.name) {
			continue
		}
		var names []string
		if r.only.Name != "" {
			names = []string{r.only.Name}
		}
		same := slices.IndexFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return rule.APIGroups[0] == r.kind.Group && rule.ResourceNames == nil
		})
		if same >= 0 && names == nil {
			if !slices.Contains(rules[same].Resources, r.resource) {
				rules[same].Resources = append(rules[same].Resources, r.resource)
			}
			continue
		}
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{r.kind.Group}, Resources: []string{r.resource}, ResourceNames: names, Verbs: verbs,
		})
	}
	return rules
}
