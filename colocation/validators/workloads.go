package validators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/config"
	core "usher.dev/usher/validators"
)

// workloads is the core suite's step of the same name for the pods of this suite. prioritize sets the priority of a new pod.
func workloads(policy *config.Policy, ask admit.Questions, prioritize func(*admit.Pod) error) admit.Validator[admit.Workload] {
	return core.WorkloadsByPods(policy, ask, core.SuitePods{
		Needs: []string{api.CollectionPriorityClasses}, Fill: prioritize,
		NotJudged: "the room that quotas have when the pods are created, and their nodes",
	})
}
