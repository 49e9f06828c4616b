package validators

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
)

// deniedNames refuses pods whose name contains one of the policy's words. It checks metadata.name or, while that is
// empty, metadata.generateName, to which the API server appends five characters before validation.
func deniedNames(policy *config.Names) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "denied-names",
		Doc:  "refuses pods whose name contains one of the policy's words",
		Run: func(_ context.Context, _ *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			if policy == nil {
				return nil, nil
			}
			at, name := admit.NamePath, pod.Name()
			if name == "" {
				at, name = admit.GenerateNamePath, pod.GenerateName()
			}
			for _, word := range policy.Denied {
				if strings.Contains(name, word) {
					problems = append(problems, field.Forbidden(at,
						fmt.Sprintf("%q contains %q, which the policy does not allow in pod names; choose another name", name, word)))
				}
			}
			return problems, nil
		},
	}
}
