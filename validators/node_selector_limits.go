package validators

import (
	"context"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/mutators/placement"
)

// nodeSelectorLimits refuses pods whose node selector lacks that of their namespace, or that select nodes by labels or
// have tolerations which are not allowed there. On UPDATE it judges only what is new. selects reports whether node-selector
// adds the namespace's selector.
func nodeSelectorLimits(policy *placement.NodeSelector, selects bool, ask admit.Questions) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:    "node-selector-limits",
		Doc:     "refuses pods that are not bound to the nodes of their namespace, or that select or tolerate nodes which are not allowed there",
		For:     admit.Pods(admissionv1.Create, admissionv1.Update),
		Needs:   []string{admit.CollectionNamespaces},
		Section: placement.Section,
		Idle:    policy == nil,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			placed, judged := newlyPlaced(req, pod)
			if !judged {
				req.Explain("the request brings no new node selector or toleration")
				return nil, nil
			}
			ns, err := ask.NamespaceOf(req)
			if err != nil {
				return nil, err
			}
			problems := append(placed.checkSelector(req, policy, selects, ns), placed.checkTolerations(policy.Tolerations, ns)...)
			if len(problems) == 0 {
				req.Explain("the node selector and the tolerations are allowed in the namespace")
			}
			return problems, nil
		},
	}
}

// placed holds the part of a pod that a request brings: all of a new pod, or what an update adds.
type placed struct {
	pod         *admit.Pod
	created     bool
	selector    labels.Set
	tolerations map[int]corev1.Toleration // by their place in the pod
}

// newlyPlaced returns what a request brings; false if it is nothing that is judged.
func newlyPlaced(req *admit.Request, pod *admit.Pod) (placed, bool) {
	switch {
	case req.Operation == admissionv1.Create:
		return placed{pod, true, pod.NodeSelector(), placement.Added(nil, pod.Tolerations())}, true
	case req.OldObject == nil || pod.Ended():
		return placed{}, false
	}
	old := admit.AsPod(req.OldObject)
	p := placed{pod, false, pod.NodeSelector(), placement.Added(old.Tolerations(), pod.Tolerations())}
	for key, value := range old.NodeSelector() {
		if p.selector[key] == value {
			delete(p.selector, key)
		}
	}
	return p, len(p.selector)+len(p.tolerations) > 0
}

// checkSelector compares the node selector with that of the namespace, and with the labels that are allowed there.
func (p placed) checkSelector(req *admit.Request, policy *placement.NodeSelector, selects bool, ns admit.Namespace) (problems field.ErrorList) {
	if !p.created && len(p.selector) == 0 {
		return nil
	}
	selector, wrong := placement.SelectorOf(policy, ns)
	if wrong != nil {
		return field.ErrorList{wrong}
	}
	for _, key := range slices.Sorted(maps.Keys(p.selector)) {
		if conflict := selector.Conflict(p.pod, key, p.selector[key]); conflict != nil {
			problems = append(problems, conflict)
		}
	}
	if p.created && selects {
		problems = append(problems, p.lacking(selector)...)
	}
	return append(problems, p.notAllowed(req.Namespace, policy.Allowed[req.Namespace])...)
}

// lacking returns the labels of the namespace's node selector that the pod does not have after all changes.
func (p placed) lacking(selector placement.Selector) (problems field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(selector.Labels)) {
		if _, has := p.selector[key]; !has {
			problems = append(problems, field.Required(p.pod.NodeSelectorPath(key),
				fmt.Sprintf("%s requires %s=%s, which a later webhook has removed; set it", selector.From, key, selector.Labels[key])))
		}
	}
	return problems
}

// notAllowed returns the labels that the policy does not allow in the namespace. An empty list allows all.
func (p placed) notAllowed(namespace string, allowed labels.Set) (problems field.ErrorList) {
	if len(allowed) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(p.selector)) {
		if value, found := allowed[key]; !found || value != p.selector[key] {
			problems = append(problems, field.Forbidden(p.pod.NodeSelectorPath(key),
				fmt.Sprintf("%s=%s is not allowed in namespace %s; nodeSelector.allowed of the policy has %s", key, p.selector[key], namespace, allowed)))
		}
	}
	return problems
}

// checkTolerations compares the tolerations with those that are allowed in the namespace.
func (p placed) checkTolerations(policy *placement.TolerationPolicy, ns admit.Namespace) (problems field.ErrorList) {
	if policy == nil || len(p.tolerations) == 0 {
		return nil
	}
	allowed, wrong := placement.AllowedTolerations(policy, ns)
	if wrong != nil {
		return field.ErrorList{wrong}
	}
	if len(allowed.All) == 0 {
		return nil
	}
	if tooMany := placement.TooMany(p.pod, len(p.tolerations)); tooMany != nil {
		return field.ErrorList{tooMany}
	}
	for _, i := range slices.Sorted(maps.Keys(p.tolerations)) {
		t := p.tolerations[i]
		if !slices.ContainsFunc(allowed.All, func(a corev1.Toleration) bool { return placement.Covers(a, t) }) {
			problems = append(problems, field.Forbidden(p.pod.TolerationPath(i),
				fmt.Sprintf("%s is not covered by %s, which allows %s; remove it", placement.Text(t), allowed.From, placement.Text(allowed.All...))))
		}
	}
	return problems
}
