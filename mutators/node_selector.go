package mutators

import (
	"context"
	"maps"
	"slices"

	"usher.dev/usher/admit"
	"usher.dev/usher/mutators/placement"
)

// nodeSelector adds the node selector of the namespace to new pods, and its default tolerations. A pod that selects
// nodes by another value of the same label is refused. What is allowed is checked by node-selector-limits, after all
// changes.
func nodeSelector(policy *placement.NodeSelector, ask admit.Questions) admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name:    "node-selector",
		Doc:     "adds the node selector and the default tolerations of the namespace; refuses pods whose node selector conflicts with it",
		Needs:   []string{admit.CollectionNamespaces},
		Section: placement.Section,
		Idle:    policy == nil,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			if !newPod(req) {
				req.Explain("nodes are selected when a pod is created")
				return nil
			}
			ns, err := ask.NamespaceOf(req)
			if err != nil {
				return err
			}
			if err := addNodeSelector(req, policy, ns, pod); err != nil || policy.Tolerations == nil {
				return err
			}
			return addTolerations(req, policy.Tolerations, ns, pod)
		},
	}
}

func addNodeSelector(req *admit.Request, policy *placement.NodeSelector, ns admit.Namespace, pod *admit.Pod) error {
	selector, wrong := placement.SelectorOf(policy, ns)
	if wrong != nil {
		return wrong
	}
	own := pod.NodeSelector()
	for _, key := range slices.Sorted(maps.Keys(selector.Labels)) {
		value, has := own[key]
		if !has {
			pod.SetNodeSelector(key, selector.Labels[key])
		} else if conflict := selector.Conflict(pod, key, value); conflict != nil {
			return conflict
		}
	}
	if len(selector.Labels) == 0 {
		req.Explain("the namespace has no node selector")
	}
	return nil
}

// addTolerations adds the namespace's default tolerations and, for pods that request or limit cpu or memory, that of
// memory pressure.
func addTolerations(req *admit.Request, policy *placement.TolerationPolicy, ns admit.Namespace, pod *admit.Pod) error {
	defaults, wrong := placement.DefaultTolerations(policy, ns)
	if wrong != nil {
		return wrong
	}
	add := slices.Clip(defaults.All)
	if !pod.BestEffort() {
		add = append(add, placement.MemoryPressure)
	}
	if len(add) == 0 {
		req.Explain("the namespace has no default tolerations, and the pod is BestEffort")
		return nil
	}
	own := pod.Tolerations()
	if tooMany := placement.TooMany(pod, len(own)); tooMany != nil {
		return tooMany
	}
	remove, added := placement.Merge(own, add)
	pod.RemoveTolerations(remove...)
	for _, t := range added {
		pod.AppendToleration(t)
	}
	return nil
}
