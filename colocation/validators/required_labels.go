package validators

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// LabelRules returns the current rules: none if the ConfigMap does not exist or is not enabled. The step only reads
// them.
type LabelRules func() (rules []api.LabelRule, err error)

// requiredLabels refuses pods without labels that a rule for their namespace requires. It reports all broken rules. As
// in the reference, every user may exempt a pod by a label; here the audit log records which rules it was exempted
// from. configMap is the ConfigMap of the rules, as namespace/name.
func requiredLabels(configMap string, rules LabelRules) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:  "required-labels",
		Doc:   "refuses pods that lack labels which the enhanced validator's ConfigMap requires in their namespace",
		Gate:  api.GateEnablePodEnhancedValidator,
		Needs: []string{api.CollectionLabelRules},
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			all, err := rules()
			if err != nil {
				return nil, fmt.Errorf("reading the rules: %w", err)
			}
			broken := brokenRules(all, req, pod)
			switch {
			case len(all) == 0:
				req.Explain("there are no rules in ConfigMap %s", configMap)
			case len(broken) == 0:
				req.Explain("no rule of ConfigMap %s requires another label of pods in namespace %s", configMap, req.Namespace)
			case exempt(pod):
				req.Explain("label %s exempts the pod", api.LabelSkipEnhancedValidation)
				auditExemption(req, broken)
				return nil, nil
			}
			var problems field.ErrorList
			for _, b := range broken {
				problems = append(problems, b.problem(configMap, req.Namespace))
			}
			return problems, nil
		},
	}
}

// brokenRule is a rule, and the labels that a pod lacks.
type brokenRule struct {
	name    string
	missing []string
}

// brokenRules returns the rules that a pod breaks by being created, or by the update under review.
func brokenRules(rules []api.LabelRule, req *admit.Request, pod *admit.Pod) (broken []brokenRule) {
	for i, rule := range rules {
		if slices.Contains(rule.NamespaceWhitelist, req.Namespace) {
			continue
		}
		if missing := missingLabels(rule.RequiredLabels, pod); len(missing) > 0 && removesLabels(missing, req, pod) {
			broken = append(broken, brokenRule{cmp.Or(rule.Name, fmt.Sprintf("number %d", i+1)), missing})
		}
	}
	return broken
}

func missingLabels(keys []string, pod *admit.Pod) (missing []string) {
	for _, key := range keys {
		if !pod.HasLabel(key) {
			missing = append(missing, key)
		}
	}
	return missing
}

// removesLabels reports whether this request removes the labels. An update of a pod that never had them is allowed, or
// the pod could not even lose its finalizers; so is every update of a pod that is being deleted.
func removesLabels(missing []string, req *admit.Request, pod *admit.Pod) bool {
	if pod.Deleting() {
		return false
	}
	old := storedPod(req)
	return old == nil || exempt(old) != exempt(pod) || slices.ContainsFunc(missing, old.HasLabel)
}

// exempt reports whether a pod has the label that exempts it from all rules.
func exempt(pod *admit.Pod) bool { return pod.Label(api.LabelSkipEnhancedValidation) == "true" }

func auditExemption(req *admit.Request, broken []brokenRule) {
	names := make([]string, len(broken))
	for i, b := range broken {
		names[i] = b.name
	}
	req.Audit("required-labels.skipped", fmt.Sprintf("label %s exempts the pod from the rules %s",
		api.LabelSkipEnhancedValidation, strings.Join(names, ", ")))
}

func (b brokenRule) problem(configMap, namespace string) *field.Error {
	at := admit.LabelsPath
	if len(b.missing) == 1 {
		at = admit.LabelPath(b.missing[0])
	}
	return field.Required(at, fmt.Sprintf("rule %q of ConfigMap %s requires labels that are missing: %s; set them on the pod or "+
		"in its template, or have namespace %q added to the rule's namespaceWhitelist",
		b.name, configMap, strings.Join(b.missing, ", "), namespace))
}
