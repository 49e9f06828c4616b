// Package placement knows which nodes the pods of a namespace may use: the node selector and the tolerations that the
// annotations of a Namespace, and the policy for all namespaces, ask for and allow. The rules are the same as of the API
// server's plugins PodNodeSelector and PodTolerationRestriction, and of OpenShift's project node selector.
package placement

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
)

// The annotations of a Namespace.
const (
	selectorKey          = "scheduler.alpha.kubernetes.io/node-selector"
	openShiftSelectorKey = "openshift.io/node-selector"
	tolerationsKey       = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedKey           = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// Applied returns the section of a policy, or nil if the mode of the step is that it changes nothing.
func Applied(policy *config.Policy) *NodeSelector {
	if mode := config.SectionOf[admit.Modes](policy).Of("node-selector"); mode == admit.Off || mode == admit.DryRun {
		return nil
	}
	return config.SectionOf[*NodeSelector](policy)
}

// Selector is the node selector of a namespace.
type Selector struct {
	Labels labels.Set
	// From says where it is written, for messages.
	From string
}

// SelectorOf returns the node selector of a namespace, from the Kubernetes annotation, else from OpenShift's, else from
// the default of the policy. An annotation that is present and empty is a selector that selects all nodes. An annotation
// that cannot be read is an error, so that no pod is placed by a rule that is unknown.
func SelectorOf(policy *NodeSelector, ns admit.Namespace) (Selector, *field.Error) {
	for _, key := range []string{selectorKey, openShiftSelectorKey} {
		text, found := ns.Annotations[key]
		if !found {
			continue
		}
		if key == openShiftSelectorKey {
			text = strings.TrimSpace(text) // OpenShift reads blanks as an empty selector
		}
		read, err := labels.ConvertSelectorToLabelsMap(text)
		if err != nil {
			return Selector{}, unreadable(key, text, err.Error(), "write labels such as pool=batch,disk=ssd")
		}
		return Selector{read, "annotation " + key + " of the namespace"}, nil
	}
	return Selector{policy.ClusterDefault, "nodeSelector.clusterDefault of the policy"}, nil
}

// Conflict returns the problem of a pod that selects nodes by the same label with another value, or nil.
func (s Selector) Conflict(pod *admit.Pod, key, value string) *field.Error {
	want, found := s.Labels[key]
	if !found || want == value {
		return nil
	}
	return field.Forbidden(pod.NodeSelectorPath(key), fmt.Sprintf("%q conflicts with %s=%s of %s; remove it, or set that value",
		value, key, want, s.From))
}

// Tolerations is a list of tolerations.
type Tolerations struct {
	All []corev1.Toleration
	// From says where they are written, for messages.
	From string
}

// DefaultTolerations returns the tolerations that new pods of a namespace get, from the annotation, also if it is
// empty, or from the default of the policy. An annotation that cannot be read is an error.
func DefaultTolerations(policy *TolerationPolicy, ns admit.Namespace) (Tolerations, *field.Error) {
	return tolerations(tolerationsKey, ns, Tolerations{policy.ClusterDefault, "nodeSelector.tolerations.clusterDefault of the policy"})
}

// AllowedTolerations returns the tolerations that pods of a namespace may have; an empty list allows all. An
// annotation that cannot be read is an error.
func AllowedTolerations(policy *TolerationPolicy, ns admit.Namespace) (Tolerations, *field.Error) {
	return tolerations(allowedKey, ns, Tolerations{policy.ClusterAllowed, "nodeSelector.tolerations.clusterAllowed of the policy"})
}

func tolerations(key string, ns admit.Namespace, otherwise Tolerations) (Tolerations, *field.Error) {
	text, found := ns.Annotations[key]
	if !found {
		return otherwise, nil
	}
	list := Tolerations{From: "annotation " + key + " of the namespace"}
	if text == "" {
		return list, nil
	}
	if err := json.Unmarshal([]byte(text), &list.All); err != nil {
		return Tolerations{}, unreadable(key, text, document.DecodeProblem(err), `write JSON such as [{"key": "gpu", "operator": "Exists"}]`)
	}
	if len(list.All) > MaxTolerations {
		return Tolerations{}, unreadable(key, text, fmt.Sprintf("it has %d tolerations", len(list.All)), fmt.Sprintf("write at most %d", MaxTolerations))
	}
	return list, nil
}

// TooMany returns the problem of a pod with more tolerations than are compared, of which there are n, or nil.
func TooMany(pod *admit.Pod, n int) *field.Error {
	if n <= MaxTolerations {
		return nil
	}
	return &field.Error{Type: field.ErrorTypeTooMany, Field: pod.TolerationsPath().String(), BadValue: n, Detail: fmt.Sprintf(
		"a pod may have at most %d tolerations; use operator Exists to tolerate several taints by one", MaxTolerations)}
}

// unreadable returns the refusal because of an annotation of the Namespace. The author of the pod cannot correct it,
// and must not be placed as if it were not there.
func unreadable(key, text, why, remedy string) *field.Error {
	return field.Forbidden(admit.NamespacePath, fmt.Sprintf(
		"annotation %s of the namespace is %q, which cannot be read: %s; its administrator must correct it: %s",
		key, text, why, remedy))
}
