package mutators

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
)

// Env is the policy on environment variables: each is set in every container that does not set it itself.
type Env []Variable

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name" doc:"the name of the variable" schema:"required,is=env-name"`
	Value string `json:"value" doc:"its value; $(NAME) means an earlier variable, as in a pod"`
}

// check returns all problems of the section.
func (env Env) check(at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i, v := range env {
		at := at.Index(i).Child("name")
		problems = append(problems, check.EnvName(v.Name, at)...)
		if seen[v.Name] {
			problems = append(problems, field.Duplicate(at, v.Name))
		}
		seen[v.Name] = true
	}
	return problems
}

// environment sets the policy's variables in init containers and containers, so that a program knows where it runs. A
// value that the pod sets itself wins, also with valueFrom. Variables from envFrom are not known here: a variable of the
// same name is set nevertheless, and in Kubernetes env takes precedence over envFrom. Where the variables come in a
// container's env, see admit.Container.AddEnv.
func environment(variables Env) admit.Mutator[admit.Pod] {
	all := make([]corev1.EnvVar, len(variables))
	for i, v := range variables {
		all[i] = corev1.EnvVar{Name: v.Name, Value: v.Value}
	}
	return admit.Mutator[admit.Pod]{
		Name:    "environment",
		Doc:     "sets the policy's environment variables in every container and init container; a value that the pod sets itself wins",
		Section: config.Section[Env]{Name: "env", Tag: `doc:"environment variables that are set in every container that does not set them itself, before its own" schema:"most=500"`, Default: "env:        [{name: KUBE, value: \"true\"}]\n", Check: Env.check},
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) error {
			if len(all) == 0 {
				req.Explain("env of the policy names no variable")
				return nil
			}
			for c := range pod.Containers() {
				if ctx.Err() != nil {
					break
				}
				c.AddEnv(all)
			}
			return ctx.Err()
		},
	}
}
