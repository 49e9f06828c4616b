package mutators

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// environment sets the policy's variables in init containers and containers, so that a program knows where it runs. A
// value that the pod sets itself wins, also with valueFrom. Variables from envFrom are not known here: a variable of the
// same name is set nevertheless, and in Kubernetes env takes precedence over envFrom.
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
