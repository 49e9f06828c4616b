package mutators

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// environment sets the policy's variables in init containers and containers, so that a program can tell where it runs. A
// value that the pod sets itself wins, also one that it sets with valueFrom. What envFrom brings cannot be seen here: a
// variable of that name is set all the same, and Kubernetes lets env win over envFrom.
func environment(variables []config.Variable) admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name: "environment",
		Doc:  "sets the policy's environment variables in every container and init container; a value that the pod sets itself wins",
		Run: func(_ context.Context, _ *admit.Request, pod *admit.Pod) error {
			for c := range pod.Containers() {
				for _, v := range variables {
					if !c.HasEnv(v.Name) {
						c.AppendEnv(corev1.EnvVar{Name: v.Name, Value: v.Value})
					}
				}
			}
			return nil
		},
	}
}
