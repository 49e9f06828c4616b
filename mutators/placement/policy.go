package placement

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
)

// NodeSelector is the policy on the nodes that the pods of a namespace may use. Annotations of the Namespace say more.
type NodeSelector struct {
	ClusterDefault map[string]string            `json:"clusterDefault,omitempty" doc:"the node selector of namespaces without one of their own" schema:"keys=label-key,is=label-value"`
	Allowed        map[string]map[string]string `json:"allowed,omitempty" doc:"the only labels by which the pods of a namespace may select nodes" schema:"keys=dns-label,is=label-value,most=10000" default:"all labels"`
	Tolerations    *TolerationPolicy            `json:"tolerations,omitempty" doc:"the tolerations that pods get and may have" default:"they are left alone"`
}

// TolerationPolicy is the policy on the tolerations of pods.
type TolerationPolicy struct {
	ClusterDefault []corev1.Toleration `json:"clusterDefault,omitempty" doc:"tolerations of pods in namespaces without defaults of their own"`
	ClusterAllowed []corev1.Toleration `json:"clusterAllowed,omitempty" doc:"the only tolerations that are allowed in namespaces without a list of their own" default:"all"`
}

// Section is the section nodeSelector.
var Section = config.Section[*NodeSelector]{Name: "nodeSelector", Check: (*NodeSelector).check, Warnings: (*NodeSelector).warnings,
	Tag:            `doc:"which nodes the pods of a namespace may use; annotations of the Namespace override the defaults"`,
	ReadsNamespace: func(name string, _ any) bool { return name == "nodeSelector" }} // the annotations of the namespace

// check returns all problems of the section.
func (n *NodeSelector) check(at *field.Path) field.ErrorList {
	problems := checkNodeLabels(n.ClusterDefault, at.Child("clusterDefault"))
	for _, namespace := range slices.Sorted(maps.Keys(n.Allowed)) {
		at := at.Child("allowed").Key(namespace)
		problems = append(problems, check.LabelName(namespace, at)...)
		if len(n.Allowed[namespace]) == 0 {
			problems = append(problems, field.Required(at, "without a label, all would be allowed; leave the namespace out if that is meant"))
		}
		problems = append(problems, checkNodeLabels(n.Allowed[namespace], at)...)
	}
	if n.Tolerations == nil {
		return problems
	}
	at = at.Child("tolerations")
	problems = append(problems, checkTolerations(n.Tolerations.ClusterDefault, at.Child("clusterDefault"))...)
	return append(problems, checkTolerations(n.Tolerations.ClusterAllowed, at.Child("clusterAllowed"))...)
}

// warnings returns the namespaces in which the cluster's default is not allowed.
func (n *NodeSelector) warnings(_ *config.Policy, at *field.Path) (all []string) {
	for _, namespace := range slices.Sorted(maps.Keys(n.Allowed)) {
		for _, key := range slices.Sorted(maps.Keys(n.ClusterDefault)) {
			if value, found := n.Allowed[namespace][key]; !found || value != n.ClusterDefault[key] {
				all = append(all, fmt.Sprintf("%s: does not allow %s=%s of clusterDefault: without a node selector in the annotations of the namespace, "+
					"all its pods are refused; add the label here, or annotate the namespace", at.Child("allowed").Key(namespace), key, n.ClusterDefault[key]))
			}
		}
	}
	return all
}

func checkNodeLabels(labels map[string]string, at *field.Path) (problems field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		problems = append(problems, check.Key(key, at.Key(key))...)
		problems = append(problems, check.LabelValue(labels[key], at.Key(key))...)
	}
	return problems
}

func checkTolerations(all []corev1.Toleration, at *field.Path) (problems field.ErrorList) {
	for i := range all {
		problems = append(problems, checkToleration(&all[i], at.Index(i))...)
	}
	return problems
}

// checkToleration applies the API server's rules for the tolerations of pods.
func checkToleration(t *corev1.Toleration, at *field.Path) (problems field.ErrorList) {
	operators := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	if t.Key != "" {
		problems = check.Key(t.Key, at.Child("key"))
	} else if t.Operator != corev1.TolerationOpExists {
		problems = append(problems, field.Required(at.Child("key"), "only operator Exists goes without a key: it tolerates all taints"))
	}
	switch {
	case t.Operator != "" && !slices.Contains(operators, t.Operator):
		problems = append(problems, field.NotSupported(at.Child("operator"), t.Operator, operators))
	case t.Operator == corev1.TolerationOpExists && t.Value != "":
		problems = append(problems, field.Forbidden(at.Child("value"), "operator Exists tolerates every value; leave it out, or use Equal"))
	default:
		problems = append(problems, check.LabelValue(t.Value, at.Child("value"))...)
	}
	if t.Effect != "" && !slices.Contains(effects, t.Effect) {
		problems = append(problems, field.NotSupported(at.Child("effect"), t.Effect, effects))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		problems = append(problems, field.Forbidden(at.Child("tolerationSeconds"), "is for effect NoExecute"))
	}
	return problems
}
